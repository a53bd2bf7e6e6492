// Package descriptors knows how many files and sockets this process can have open.
package descriptors
