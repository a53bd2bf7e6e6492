// Package jsonobject reads and changes members of JSON objects, and keeps all other bytes unchanged.
package jsonobject
