<?php
// A worker of a fleet that retries by the exchange master.retry, by php-amqplib: as mylxsw/rabbitmq-pubsub-php does at 0abcee2, by the name of the
// queue, or as it did at fd97f7e, by the message's key. With the setting java it does as mylxsw/rabbitmq-pubsub-java at 98713c0, but for the
// automatic acks there.
//
// Takes commands from its input and reports on its output, one line of JSON each.

require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

const MAX_RETRIES = 3;
const LIMIT = 60; // seconds, for whatever is waited for

[, $url, $settings] = $argv;
$url = parse_url($url);
$settings = json_decode($settings, true);
$queue = $settings['queue'];
$byQueue = $settings['form'] === 'by-queue';
$java = $settings['java'] ?? false;
[$retryExchange, $failedExchange] = $java ? ['master@retry', 'master@failed'] : ['master.retry', 'master.failed'];
$connection = new AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], substr($url['path'], 1));

function report(array $seen): void
{
    echo json_encode($seen, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR), "\n";
}

function headers(AMQPMessage $message): array
{
    return $message->has('application_headers') ? $message->get('application_headers')->getNativeData() : [];
}

function seen(AMQPMessage $message): array
{
    $own = array_filter(headers($message), fn ($name) => !str_starts_with($name, 'x-'), ARRAY_FILTER_USE_KEY);
    return ['id' => $message->has('message_id') ? $message->get('message_id') : '', 'body' => $message->body, 'headers' => (object) $own];
}

function declareAll(): void
{
    global $connection, $queue, $settings, $byQueue, $retryExchange, $failedExchange;
    $channel = $connection->channel();
    foreach (['master', $retryExchange, $failedExchange] as $exchange) {
        $channel->exchange_declare($exchange, 'topic', false, true, false);
    }
    $channel->queue_declare($queue, false, true, false, false, false);
    $channel->queue_declare("$queue@failed", false, true, false, false, false);
    $wait = ['x-dead-letter-exchange' => 'master', 'x-message-ttl' => $settings['delay']];
    $channel->queue_bind($queue, 'master', $settings['key']);
    $key = $settings['key'];
    if ($byQueue) {
        $key = $queue;
        $wait['x-dead-letter-routing-key'] = $queue;
        $channel->queue_bind($queue, 'master', $queue);
    }
    $channel->queue_declare("$queue@retry", false, true, false, false, false, new AMQPTable($wait));
    $channel->queue_bind("$queue@retry", $retryExchange, $key);
    $channel->queue_bind("$queue@failed", $failedExchange, $key);
    $channel->close();
}

function confirmed(): AMQPChannel
{
    global $connection;
    $channel = $connection->channel();
    $channel->confirm_select();
    $channel->set_nack_handler(fn (AMQPMessage $message) => throw new Exception("not confirmed: $message->body"));
    $channel->set_return_listener(fn ($code, $text, $exchange, $key) => throw new Exception("$text: exchange '$exchange', key '$key'"));
    return $channel;
}

function publish(array $messages): void
{
    global $settings;
    $channel = confirmed();
    foreach ($messages as $message) {
        $properties = ['delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT, 'message_id' => $message['id']];
        if ($message['headers']) {
            $properties['application_headers'] = new AMQPTable($message['headers']);
        }
        $channel->basic_publish(new AMQPMessage($message['body'], $properties), 'master', $settings['publish'], true);
    }
    $channel->wait_for_pending_acks_returns(LIMIT);
    $channel->close();
}

function retryCount(AMQPMessage $message): int
{
    return (int) (headers($message)['x-death'][0]['count'] ?? 0);
}

/** The key with which a message was published. */
function publishedKey(AMQPMessage $message): string
{
    return headers($message)['x-orig-routing-key'] ?? $message->getRoutingKey();
}

/** A message that has failed, as it is published to the retry or the failed exchange. */
function giveOn(AMQPChannel $channel, AMQPMessage $message, bool $givenUp): void
{
    global $queue, $byQueue, $java, $retryExchange, $failedExchange;
    $exchange = $givenUp ? $failedExchange : $retryExchange;
    if (!$byQueue) {
        $channel->basic_publish($message, $exchange, $message->getRoutingKey());
        return;
    }
    if ($java || !$givenUp) {
        $headers = $message->has('application_headers') && !($java && $givenUp) ? $message->get('application_headers') : new AMQPTable();
        $headers->set('x-orig-routing-key', publishedKey($message));
        $message = new AMQPMessage($message->body, ['application_headers' => $headers] + $message->get_properties());
    }
    $channel->basic_publish($message, $exchange, $queue);
}

/** Handles what comes until it is cancelled, or so many messages if there is a limit. */
class Consumer
{
    private AMQPChannel $channel;
    private string $tag;
    private int $handled = 0;

    public function __construct(private int $left, private bool $fixed)
    {
        global $connection, $queue;
        $this->channel = $connection->channel();
        $this->channel->basic_qos(0, $left ? 1 : 10, false);
        $this->tag = $this->channel->basic_consume($queue, '', false, false, false, false, fn ($message) => $this->handle($message));
    }

    public function cancel(): void
    {
        $this->channel->basic_cancel($this->tag);
    }

    /** Handles what is here: while an answer was waited for, the library may have put deliveries aside. */
    public function work(): void
    {
        do {
            $before = $this->handled;
            $this->channel->wait(null, true);
        } while ($this->handled > $before);
    }

    private function handle(AMQPMessage $message): void
    {
        $this->handled++;
        if (--$this->left == 0) {
            $this->cancel(); // before the message is settled: another one must not come
        }
        $count = retryCount($message);
        $report = seen($message) + ['count' => $count, 'redelivered' => $message->isRedelivered(), 'exchange' => $message->getExchange(),
            'key' => publishedKey($message), 'outcome' => 'handled'];
        try {
            $this->process($message->body, $count);
        } catch (RuntimeException) {
            $report['outcome'] = $count > MAX_RETRIES ? 'failed' : 'retried';
            giveOn($this->channel, $message, $count > MAX_RETRIES);
        }
        $message->ack();
        report(['delivery' => $report]);
    }

    private function process(string $body, int $count): void
    {
        if (!$this->fixed && $count < json_decode($body, true)['fails']) {
            throw new RuntimeException('the message is to fail');
        }
    }
}

function failed(): array
{
    global $connection, $queue;
    $channel = $connection->channel();
    $found = [];
    while ($message = $channel->basic_get("$queue@failed")) {
        $found[] = seen($message);
    }
    $channel->close(); // gives all of them back
    return $found;
}

function replay(): int
{
    global $queue, $byQueue;
    $channel = confirmed();
    $replayed = 0;
    while ($message = $channel->basic_get("$queue@failed")) {
        $message->set('application_headers', new AMQPTable($byQueue ? ['x-orig-routing-key' => publishedKey($message)] : []));
        $channel->basic_publish($message, 'master', $byQueue ? $queue : $message->getRoutingKey(), true);
        $channel->wait_for_pending_acks_returns(LIMIT);
        $message->ack();
        $replayed++;
    }
    $channel->close();
    return $replayed;
}

$consumer = null;
function perform(array $command): void
{
    global $consumer;
    $value = match ($command['do']) {
        'declare' => declareAll(),
        'publish' => publish($command['messages']),
        'consume' => (bool) $consumer = new Consumer($command['limit'], $command['fixed']),
        'cancel' => $consumer->cancel(),
        'failed' => failed(),
        'replay' => replay(),
    };
    report(['done' => $command['do'], 'value' => $value]);
}

$socket = $connection->getIO()->getSocket();
for ($line = ''; $line !== false;) {
    $readable = [STDIN, $socket];
    $none = null;
    stream_select($readable, $none, $none, LIMIT);
    if (in_array(STDIN, $readable, true) && $line = fgets(STDIN)) {
        perform(json_decode($line, true));
    }
    $consumer ? $consumer->work() : $connection->wait(null, true);
}
$connection->close();
