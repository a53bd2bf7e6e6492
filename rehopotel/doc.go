// Package rehopotel reports the work of rehop to OpenTelemetry: spans that follow a message from its
// publisher through every attempt to the failed queue and its replay, and metrics by the messaging
// conventions.
//
//	telemetry, err := rehopotel.New(rehopotel.Config{})
//	client, err := rehop.Open(ctx, rehop.Config{Hooks: []rehop.Hooks{telemetry.Client()}})
//	relay := outbox.Relay{Client: client, Hooks: []outbox.Hooks{telemetry.Outbox()}}
//	once := inbox.Inbox{DB: db, Dialect: dialect.Postgres, OnDuplicate: telemetry.Duplicate}
//
// A message carries the context of its publisher in W3C headers. Each attempt is a child span of the publish, with a link to the attempt
// before. A replay, which may happen days later, starts a new trace with links to both.
package rehopotel
