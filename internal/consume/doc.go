// Package consume takes deliveries from a queue and sees each of them through: it admits a delivery
// (Admission), runs the handler (worker), decides by what the handler returned what becomes of the
// message (Decide), moves the message where it belongs next if it has to (mover), and settles the
// original (settle). It knows deliveries as the package rabbit has them; what a handler sees of one
// is made by its caller (Handler).
package consume
