module github.com/rehop/rehop/integration

go 1.26

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/rehop/rehop v0.0.0
)

replace github.com/rehop/rehop => ../
