package brokers

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rehop/rehop/broker/brokertest"
)

// disk is what a log would do that has nothing else to do: write a record and sync it, one after the other. No broker that syncs
// can publish faster one by one.
type disk struct {
	name  string
	ahead int64 // zeros that are written before, so that the file does not grow with each record; 0: it does
}

var disks = []disk{{"bare disk, growing", 0}, {"bare disk, over zeros", 512 << 10}}

// recordOverhead is what the embedded broker writes in addition to a body.
const recordOverhead = 96

// bareLog is a file to which records are written.
type bareLog struct {
	file   brokertest.File
	remove func() error
	zeros  []byte
	end    int64
	blank  int64 // up to here there are zeros
}

func (d disk) open(dir string) (*bareLog, error) {
	const name = "bare-disk"
	f, err := brokertest.CreateFile(dir, name)
	if err != nil {
		return nil, err
	}
	return &bareLog{file: f, remove: func() error { return os.Remove(filepath.Join(dir, name)) }, zeros: make([]byte, d.ahead)}, nil
}

func (l *bareLog) close() error { return errors.Join(l.file.Close(), l.remove()) }

// append writes a record, and syncs it.
func (l *bareLog) append(record []byte) error {
	if len(l.zeros) > 0 && l.end+int64(len(record)) > l.blank {
		if _, err := l.file.WriteAt(l.zeros, l.end); err != nil {
			return err
		}
		l.blank = l.end + int64(len(l.zeros))
	}
	if _, err := l.file.WriteAt(record, l.end); err != nil {
		return err
	}
	l.end += int64(len(record))
	return l.file.Sync()
}

// write writes n records to a file in a directory.
func (d disk) write(dir string, n int) (m measure, err error) {
	l, err := d.open(dir)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	record, latencies := make([]byte, *size+recordOverhead), make([]time.Duration, n)
	began := time.Now()
	for i := range latencies {
		sent := time.Now()
		if err := l.append(record); err != nil {
			return m, err
		}
		latencies[i] = time.Since(sent)
	}
	return measure{n, time.Since(began), latencies}, nil
}
