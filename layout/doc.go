// Package layout has the settings of layouts: the exchanges and queues in which the messages of a
// subscription wait for a retry and in which failed messages are kept.
//
// [Native] is rehop's own layout and the default. The other five let rehop share queues with
// applications that already retry in another way, so that both sides can consume the same queue,
// count failures together and replay each other's failed messages. Set a layout in
// rehop.Subscriber.Layout, in rehop.Exchange.Layout and in admin.Config.
//
// A layout is a plain value. Its zero value has the defaults of the applications that use it.
package layout
