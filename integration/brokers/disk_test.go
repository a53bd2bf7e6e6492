package brokers

import (
	"errors"
	"time"

	"github.com/rehop/rehop/internal/node/store"
)

// disk is what a log would do that has nothing else to do: write a record and sync it, one after the other. No broker that syncs
// can publish faster one by one.
type disk struct {
	name  string
	ahead int64 // zeros that are written before, so that the file does not grow with each record; 0: it does
}

var disks = []disk{{"bare disk, growing", 0}, {"bare disk, over zeros", 512 << 10}}

// recordOverhead is what the embedded broker writes beside a body.
const recordOverhead = 96

// write writes n records to a file in a directory.
func (d disk) write(dir string, n int) (m measure, err error) {
	fs := store.Dir(dir)
	const name = "bare-disk"
	f, err := fs.Create(name)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close(), fs.Remove(name)) }()
	record, zeros := make([]byte, *size+recordOverhead), make([]byte, d.ahead)
	latencies := make([]time.Duration, n)
	end, blank := int64(0), int64(0)
	began := time.Now()
	for i := range n {
		sent := time.Now()
		if d.ahead > 0 && end+int64(len(record)) > blank {
			if _, err := f.WriteAt(zeros, end); err != nil {
				return m, err
			}
			blank = end + d.ahead
		}
		if _, err := f.WriteAt(record, end); err != nil {
			return m, err
		}
		if err := f.Sync(); err != nil {
			return m, err
		}
		end += int64(len(record))
		latencies[i] = time.Since(sent)
	}
	return measure{n, time.Since(began), latencies}, nil
}
