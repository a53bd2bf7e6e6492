// Package guard kills the programs of flows, with their child processes, when this process is killed and cannot do it itself.
//
// A second process of this program reads from a pipe which process groups run. The kernel closes the pipe when this process ends, in
// whatever way. Then the second process kills the groups that are left, and ends. It is started with the first flow that has
// a program.
//
// What survives are processes that have left the group of their program (setsid): those survive the normal end of the program, too. If this
// process is killed in the moment between starting a program and reporting its group, the kernel kills the program (on Linux), but not what
// it may have started by then.
package guard
