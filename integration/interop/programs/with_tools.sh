#!/bin/sh
# Uses a broker as scripts do, by amqp-tools, and reports what it saw, one line of JSON a step. The tools give queues no arguments: a policy
# has messages in the queue "expiring" expire and go to the queue "graveyard".
set -u
url=$1

report() { printf '{"step":"%s","status":%d,"seen":"%s"}\n' "$1" "$2" "$3"; }

# run STEP TOOL ARG...: what the tool said, its lines joined.
run() {
	step=$1 tool=$2
	shift 2
	said=$("$tool" --url="$url" "$@" 2>&1)
	report "$step" $? "$(printf %s "$said" | tr '\n' ',')"
}

for queue in work expiring graveyard; do
	run declare amqp-declare-queue --queue=$queue --durable
done

seq -f m%g 0 9 | run publish amqp-publish --routing-key=work --persistent --line-buffered
run get amqp-get --queue=work
run consume amqp-consume --queue=work --prefetch-count=3 --count=9 cat
run empty amqp-get --queue=work

run publish amqp-publish --routing-key=expiring --persistent --content-type=text/plain --header='x-trace: 1' --body=e0
run expire amqp-consume --queue=graveyard --count=1 cat

run missing amqp-get --queue=missing
run missing amqp-publish --exchange=missing --routing-key=work --body=lost
run delete amqp-delete-queue --queue=expiring

# The tool consumes for certain when it has a message; it waits for a second in vain. It does not agree to be closed, and what it says in the
# end is a matter of the operating system. Without a heartbeat RabbitMQ would wait for 30 s.
run publish amqp-publish --routing-key=work --body=m
amqp-consume --url="$url" --queue=work --no-ack --count=2 --heartbeat=1 -- sh -c 'cat >/dev/null; echo "{\"step\":\"cut me\"}"' 2>/dev/null
report cut $? ""
run publish amqp-publish --routing-key=work --body=kept
run reconnect amqp-get --queue=work
