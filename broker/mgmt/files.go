package mgmt

// descriptors are the files and sockets that a process has open, and may have.
type descriptors struct{ open, limit int64 }
