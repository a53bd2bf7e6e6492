// Package shop has what the programs of the examples share: their messages.
package shop

import "github.com/rehop/rehop"

// Order is what a customer has ordered.
type Order struct {
	Number int64  `json:"number"`
	Email  string `json:"email"`
	Cents  int64  `json:"cents"`
}

// OrderPlaced is published for each new order.
var OrderPlaced = rehop.Event[Order]{Exchange: "orders", Key: "order.placed", Type: "order.placed.v1"}

// Change is what has happened to an order, such as "paid" or "shipped".
type Change struct {
	Number int64  `json:"number"`
	State  string `json:"state"`
}

// OrderChanged is published for each change of an order.
var OrderChanged = rehop.Event[Change]{Exchange: "orders", Key: "order.changed", Type: "order.changed.v1"}
