package mgmt

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/rehop/rehop/broker"
)

// backupStall is how long a client may not read before its backup is given up: it keeps files on the disk.
const backupStall = time.Minute

// stream is an answer that is written while it is produced.
type stream struct {
	contentType string
	// write returns an error after which the answer is incomplete.
	write func(io.Writer) error
}

// backup sends a backup of the broker. Its own checksum shows the client whether it is complete.
func (c *call) backup() (any, error) {
	if c.r.Method == http.MethodHead {
		return status(http.StatusOK), nil
	}
	return stream{"application/octet-stream", func(w io.Writer) error {
		sent := &deadlineWriter{to: w, control: http.NewResponseController(c.w)}
		defer sent.end()
		err := c.server.Backup(c.r.Context(), sent)
		if err != nil {
			c.node.Log.Warn("backup failed", "user", c.user.Name, "bytes", sent.bytes, "error", err)
			return backupFailure(err)
		}
		c.node.Log.Info("backup sent", "user", c.user.Name, "bytes", sent.bytes)
		return nil
	}}, nil
}

// backupFailure is the answer if a backup did not begin.
func backupFailure(err error) error {
	switch {
	case errors.Is(err, broker.ErrInMemory):
		return badRequest(err.Error())
	case errors.Is(err, broker.ErrBackupRunning):
		return &failure{http.StatusConflict, "conflict", err.Error()}
	}
	return &failure{http.StatusServiceUnavailable, "service_unavailable", err.Error()}
}

// deadlineWriter waits a limited time for each write.
type deadlineWriter struct {
	to      io.Writer
	control *http.ResponseController
	bytes   int64
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(backupStall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := w.to.Write(b)
	w.bytes += int64(n)
	return n, err
}

// end removes the limit: the connection may be used for another request.
func (w *deadlineWriter) end() { _ = w.control.SetWriteDeadline(time.Time{}) }

// send writes the answer. If nothing was written before an error, the error is the answer. Otherwise the connection is cut,
// so that no client takes the answer for complete.
func (s stream) send(w http.ResponseWriter) {
	first := &firstWrite{to: w, before: func() { w.Header().Set("Content-Type", s.contentType) }}
	err := s.write(first)
	switch {
	case err != nil && !first.begun:
		write(w, err)
	case err != nil:
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// firstWrite calls before once, before the first write.
type firstWrite struct {
	to     io.Writer
	before func()
	begun  bool
}

func (f *firstWrite) Write(b []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.before()
	}
	return f.to.Write(b)
}
