// Package layouts is one suite for the layouts that rehop shares with fleets which were there before it: what
// the seeds describe, feature by feature, for any broker.
//
// In addition to rehop, each case has programs of the fleet, which do with amqp091-go what the code of the seed does:
// publish without confirms, requeue, reject, edit bodies, replay with cleared headers. Counts are shared
// between both, so both have to be there. Where the seed loses, loops or multiplies a message, a case
// shows that too, and another one shows how rehop avoids it.
package layouts
