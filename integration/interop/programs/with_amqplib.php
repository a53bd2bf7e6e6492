<?php
// Uses a broker as programs do, by php-amqplib, and reports what it saw, one line of JSON a step.

require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const DEAD = ['x-dead-letter-exchange' => 'dead'];
const LIMIT = 60; // seconds, for whatever is waited for

function connect(): AMQPStreamConnection
{
    $url = parse_url($_SERVER['argv'][1]);
    return new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], substr($url['path'], 1));
}

function report(string $step, array $seen = []): void
{
    echo json_encode(['step' => $step] + $seen, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), "\n";
}

function publish(AMQPChannel $channel, string $body, string $key = 'job', array $properties = []): void
{
    $message = new AMQPMessage($body, ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT] + $properties);
    $channel->basic_publish($message, 'events', $key, true);
    $channel->wait_for_pending_acks_returns(LIMIT);
}

/** Waits for the next dead message. */
function bury(AMQPChannel $channel): AMQPMessage
{
    global $buried;
    while (!$buried) {
        $channel->wait(null, false, LIMIT);
    }
    return array_shift($buried);
}

function headers(AMQPMessage $message): array
{
    return $message->get('application_headers')->getNativeData();
}

function deaths(array $headers): array
{
    $kept = array_flip(['count', 'reason', 'queue', 'exchange', 'routing-keys', 'original-expiration']);
    return [
        'death' => array_map(fn ($death) => array_intersect_key($death, $kept), $headers['x-death']),
        'first' => array_map(fn ($key) => $headers["x-first-death-$key"], ['queue', 'reason', 'exchange']),
    ];
}

function ready(AMQPChannel $channel, string $queue): int
{
    return $channel->queue_declare($queue, true)[1];
}

function refused(AMQPStreamConnection $connection, string $step, callable $action): void
{
    try {
        $action($connection->channel());
    } catch (AMQPProtocolChannelException $e) {
        report($step, ['code' => $e->amqp_reply_code, 'text' => $e->amqp_reply_text]);
    }
}

$connection = connect();
$channel = $connection->channel();
$channel->confirm_select();
$channel->set_nack_handler(fn (AMQPMessage $message) => throw new Exception("not confirmed: $message->body"));

$channel->exchange_declare('events', 'direct', false, true, false);
$channel->exchange_declare('dead', 'fanout', false, true, false);
$channel->queue_declare('work', false, true, false, false, false, new AMQPTable(DEAD));
[$name, $messages, $consumers] = $channel->queue_declare('wait', false, true, false, false, false, new AMQPTable(['x-message-ttl' => 200] + DEAD));
$channel->queue_declare('graveyard', false, true, false, false);
$channel->queue_bind('work', 'events', 'job');
$channel->queue_bind('wait', 'events', 'later');
$channel->queue_bind('graveyard', 'dead');
report('declare', ['queue' => $name, 'messages' => $messages, 'consumers' => $consumers]);

for ($n = 0; $n < 20; $n++) {
    publish($channel, "m$n");
}
report('publish', ['confirmed' => 20]);

$channel->set_return_listener(fn ($code, $text, $exchange, $key, AMQPMessage $message) => report('return',
    ['code' => $code, 'text' => $text, 'exchange' => $exchange, 'key' => $key, 'body' => $message->body]));
publish($channel, 'lost', 'nowhere');

$bodies = [];
$channel->basic_qos(0, 5, false);
$tag = $channel->basic_consume('work', '', false, false, false, false, function (AMQPMessage $message) use (&$bodies, $channel) {
    $bodies[] = $message->body;
    if (count($bodies) == 5) {
        report('prefetch', ['held' => $bodies, 'ready' => ready($channel, 'work')]);
    }
    if (count($bodies) % 5 == 0) {
        $message->ack(true);
    }
});
while (count($bodies) < 20) {
    $channel->wait(null, false, LIMIT);
}
$channel->basic_cancel($tag);
report('consume', ['bodies' => $bodies, 'ready' => ready($channel, 'work')]);

publish($channel, '{}', 'job', ['content_type' => 'application/json', 'message_id' => 'id-1', 'correlation_id' => 'c-1', 'type' => 't', 'app_id' => 'a',
    'priority' => 3, 'timestamp' => 1700000000, 'application_headers' => new AMQPTable(
        ['text' => 'grüße', 'number' => 42, 'big' => 5000000000, 'yes' => true, 'list' => ['a', 1], 'table' => ['k' => 'v']])]);
$message = $channel->basic_get('work');
$message->ack();
$seen = ['headers' => headers($message)];
foreach (['content_type', 'message_id', 'correlation_id', 'type', 'app_id', 'delivery_mode', 'priority', 'timestamp'] as $property) {
    $seen[$property] = $message->get($property);
}
report('properties', $seen);

publish($channel, 'again');
$first = $channel->basic_get('work');
$first->nack(true);
$second = $channel->basic_get('work');
$second->ack();
report('requeue', ['redelivered' => [$first->isRedelivered(), $second->isRedelivered()]]);

$buried = [];
$tag = $channel->basic_consume('graveyard', '', false, false, false, false, function (AMQPMessage $message) use (&$buried) {
    $message->ack();
    $buried[] = $message;
});

publish($channel, 'bad');
$channel->basic_get('work')->reject(false);
$message = bury($channel);
report('reject', ['body' => $message->body] + deaths(headers($message)));

publish($channel, 'e0', 'later');
publish($channel, 'e1', 'later', ['expiration' => '100']);
for ($n = 0; $n < 2; $n++) {
    $message = bury($channel);
    report('expire', ['body' => $message->body, 'key' => $message->getRoutingKey(),
        'expiration' => $message->has('expiration') ? $message->get('expiration') : null] + deaths(headers($message)));
}

publish($channel, 'e2', 'later');
$message = bury($channel);
publish($channel, $message->body, 'later', ['application_headers' => $message->get('application_headers')]);
$message = bury($channel);
report('expire again', ['body' => $message->body] + deaths(headers($message)));
$channel->basic_cancel($tag);

refused($connection, 'missing', fn ($channel) => $channel->queue_declare('missing', true));
refused($connection, 'inequivalent', fn ($channel) => $channel->queue_declare('wait', false, true, false, false, false,
    new AMQPTable(['x-message-ttl' => 300] + DEAD)));
report('go on', ['ready' => ready($channel, 'work')]);

publish($channel, 'kept');
$channel->basic_get('work');
report('cut me');
try {
    $channel->wait(null, false, LIMIT);
} catch (AMQPConnectionClosedException $e) {
    // The library adds the class and method that were to blame: none.
    report('cut', ['code' => $e->getCode(), 'text' => preg_replace('/\(0, 0\)$/', '', $e->getMessage())]);
}
$connection = connect();
$message = $connection->channel()->basic_get('work');
$message->ack();
report('reconnect', ['body' => $message->body, 'redelivered' => $message->isRedelivered()]);
$connection->close();
report('done');
