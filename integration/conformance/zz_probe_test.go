package conformance
import ("testing"; "fmt"; "github.com/rehop/rehop/integration/lab"; amqp "github.com/rabbitmq/amqp091-go")
func TestProbe(t *testing.T) {
	ch := lab.Single(t).Channel()
	cl := ch.NotifyClose(make(chan *amqp.Error,1))
	ch.Qos(1,0,false)
	ch.QueueDeclare("q",true,false,false,false,amqp.Table{"x-single-active-consumer":true})
	one,_ := ch.Consume("q","one",false,false,false,false,nil)
	two,_ := ch.Consume("q","two",false,false,false,false,nil)
	for _,b := range []string{"a","b"} { ch.Publish("","q",false,false,amqp.Publishing{Body:[]byte(b)}) }
	d := <-one
	fmt.Println(string(d.Body), ch.Cancel("one",false))
	select { case e := <-cl: fmt.Println("closed", e); case d,ok := <-two: fmt.Println(string(d.Body), ok) }
}
