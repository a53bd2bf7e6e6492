#!/bin/sh
# Uses a broker as scripts do, by amqp-tools, and reports what it saw, one line of JSON a step. The tools give queues no arguments: a policy
# has messages in the queue "expiring" expire and go to the queue "graveyard".
set -u
url=$1
exec 3>&1 # for commands of which stdout is read

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

# The tool has the queue as soon as there is a message; it waits for the second in vain.
run publish amqp-publish --routing-key=work --body=m
run cut amqp-consume --queue=work --no-ack --count=2 -- sh -c 'cat >/dev/null; echo "{\"step\":\"cut me\"}" >&3'
run publish amqp-publish --routing-key=work --body=kept
run reconnect amqp-get --queue=work
