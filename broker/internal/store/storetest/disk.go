// Package storetest is a disk in memory that can fail, fill up and lose power.
package storetest

import (
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/rehop/rehop/broker/internal/store"
)

// Operation is a change of a disk.
type Operation string

const (
	Create   Operation = "create"
	Write    Operation = "write"
	Truncate Operation = "truncate"
	Sync     Operation = "sync"
	Rename   Operation = "rename"
	Remove   Operation = "remove"
	SyncDir  Operation = "sync directory"
)

// Disk is a store.FS in memory. It knows what is durable and what a power failure may lose.
type Disk struct {
	// Fault, if not nil, is called before each change and can make it fail. A failed write still writes the
	// number of bytes that Fault returns. It must be set before the disk is used.
	Fault func(op Operation, name string) (written int, err error)
	// ReadFault, if not nil, is called before each read and can make it fail. It must be set before the disk is used.
	ReadFault func(name string, offset int64) error
	// LosesFailed makes a failed sync do what Linux does: the pages that could not be written count as
	// written from then on. They can be read while the power is on, a later sync succeeds without writing
	// them, and a power failure loses them, unless they were written again. Changes of names and sizes are
	// in the journal of the file system, and are not lost. It must be set before the disk is used.
	LosesFailed bool

	mu       sync.Mutex
	chance   *rand.Rand // chooses the pages that a failed sync has written
	names    map[string]*inode
	durable  map[string]*inode
	unsynced []nameChange
	capacity int64
	locked   bool
}

// nameChange is a change of the directory: the name belongs to the file, or to none. A rename removes the
// old name in the same step.
type nameChange struct {
	name  string
	file  *inode
	taken string
}

func (c nameChange) apply(names map[string]*inode) {
	if c.taken != "" {
		delete(names, c.taken)
	}
	if c.file == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.file
	}
}

// inode is the content of a file.
type inode struct {
	data     []byte
	durable  []byte
	unsynced []dataChange
}

// dataChange is a write, or the end of the file if it has no bytes.
type dataChange struct {
	offset int64
	bytes  []byte
}

func (c dataChange) apply(data []byte) []byte {
	if c.bytes == nil {
		return resize(data, c.offset)
	}
	if end := c.offset + int64(len(c.bytes)); end > int64(len(data)) {
		data = resize(data, end)
	}
	copy(data[c.offset:], c.bytes)
	return data
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size]
	}
	return append(data, make([]byte, size-int64(len(data)))...)
}

// NewDisk returns an empty disk of unlimited size.
func NewDisk() *Disk {
	return &Disk{names: make(map[string]*inode), durable: make(map[string]*inode), capacity: math.MaxInt64, chance: rand.New(rand.NewPCG(1, 1))}
}

// SetCapacity sets how many bytes fit on the disk.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Used returns how many bytes are on the disk.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used()
}

func (d *Disk) used() int64 {
	var n int64
	for _, f := range d.names {
		n += int64(len(f.data))
	}
	return n
}

// Killed returns a copy of the disk as a killed process leaves it. Everything that was written can be read,
// and what was not synced can still be lost.
func (d *Disk) Killed() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := make(map[*inode]*inode)
	clone := func(f *inode) *inode {
		if f == nil {
			return nil
		}
		if copies[f] == nil {
			copies[f] = &inode{slices.Clone(f.data), slices.Clone(f.durable), slices.Clone(f.unsynced)}
		}
		return copies[f]
	}
	image := NewDisk()
	image.LosesFailed = d.LosesFailed
	for name, f := range d.names {
		image.names[name] = clone(f)
	}
	for name, f := range d.durable {
		image.durable[name] = clone(f)
	}
	for _, c := range d.unsynced {
		image.unsynced = append(image.unsynced, nameChange{c.name, clone(c.file), c.taken})
	}
	return image
}

// pageSize is the unit that a power failure loses or keeps.
const pageSize = 512

// PowerCut returns a disk with everything that is durable, and some of what is not.
func (d *Disk) PowerCut(rng *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	// From losing nearly all to keeping nearly all.
	keep := rng.Float64()
	names := maps.Clone(d.durable)
	for _, c := range d.unsynced {
		if rng.Float64() < keep {
			c.apply(names)
		}
	}
	image := NewDisk()
	image.LosesFailed = d.LosesFailed
	for _, name := range slices.Sorted(maps.Keys(names)) {
		image.put(name, names[name].afterPowerCut(rng, keep))
	}
	return image
}

func (f *inode) afterPowerCut(rng *rand.Rand, keep float64) []byte {
	data := slices.Clone(f.durable)
	for _, c := range f.unsynced {
		if c.bytes == nil {
			if rng.Float64() < keep {
				data = c.apply(data)
			}
			continue
		}
		for page := range c.pages {
			if rng.Float64() < keep {
				data = page.apply(data)
			}
		}
	}
	if len(f.unsynced) > 0 && rng.Float64() < 0.2 && len(f.data) > len(data) {
		data = resize(data, int64(len(f.data))) // the size has grown, and the data is lost
	}
	return data
}

// pages yields a write page by page.
func (c dataChange) pages(yield func(dataChange) bool) {
	for at := int64(0); at < int64(len(c.bytes)); {
		next := min((c.offset+at)/pageSize*pageSize+pageSize-c.offset, int64(len(c.bytes)))
		if !yield(dataChange{c.offset + at, c.bytes[at:next]}) {
			return
		}
		at = next
	}
}

// loseUnsynced makes some pages durable, and marks all of them as durable.
func (f *inode) loseUnsynced(rng *rand.Rand) {
	var sizes []dataChange
	for _, c := range f.unsynced {
		if c.bytes == nil {
			sizes = append(sizes, c)
			continue
		}
		for page := range c.pages {
			if rng.IntN(2) == 0 {
				f.durable = page.apply(f.durable)
			}
		}
	}
	f.unsynced = sizes
}

// put creates a durable file.
func (d *Disk) put(name string, data []byte) {
	f := &inode{data: data, durable: slices.Clone(data)}
	d.names[name] = f
	d.durable[name] = f
}

// Put creates a durable file with these bytes.
func (d *Disk) Put(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(name, slices.Clone(data))
}

// Bytes returns the content of a file, or nil if there is none.
func (d *Disk) Bytes(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

func (d *Disk) fault(op Operation, name string) (int, error) {
	if d.Fault == nil {
		return 0, nil
	}
	return d.Fault(op, name)
}

// List implements store.FS.
func (d *Disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

// Create implements store.FS.
func (d *Disk) Create(name string) (store.File, error) {
	if _, err := d.fault(Create, name); err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		f = new(inode)
		d.rename(nameChange{name: name, file: f})
	} else {
		f.change(dataChange{})
	}
	return &file{disk: d, inode: f, name: name}, nil
}

// Open implements store.FS.
func (d *Disk) Open(name string) (store.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{disk: d, inode: f, name: name}, nil
}

// Rename implements store.FS.
func (d *Disk) Rename(from, to string) error {
	if _, err := d.fault(Rename, from); err != nil {
		return &fs.PathError{Op: "rename", Path: from, Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[from]
	if f == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.rename(nameChange{name: to, file: f, taken: from})
	return nil
}

// Remove implements store.FS.
func (d *Disk) Remove(name string) error {
	if _, err := d.fault(Remove, name); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	d.rename(nameChange{name: name})
	return nil
}

func (d *Disk) rename(c nameChange) {
	c.apply(d.names)
	d.unsynced = append(d.unsynced, c)
}

// Sync implements store.FS.
func (d *Disk) Sync() error {
	if _, err := d.fault(SyncDir, ""); err != nil {
		return &fs.PathError{Op: "sync", Path: ".", Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable = maps.Clone(d.names)
	d.unsynced = nil
	return nil
}

// Free implements store.FS.
func (d *Disk) Free() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(d.capacity-d.used(), 0), nil
}

// Lock implements store.FS.
func (d *Disk) Lock() (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locked {
		return nil, store.ErrLocked
	}
	d.locked = true
	return lock{d}, nil
}

type lock struct{ disk *Disk }

func (l lock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	l.disk.locked = false
	return nil
}

// file is an open file.
type file struct {
	disk   *Disk
	inode  *inode
	name   string
	closed bool
}

func (f *inode) change(c dataChange) {
	f.data = c.apply(f.data)
	f.unsynced = append(f.unsynced, c)
}

func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	if f.disk.ReadFault != nil {
		if err := f.disk.ReadFault(f.name, offset); err != nil {
			return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
		}
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if offset >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.inode.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, offset int64) (int, error) {
	limit, err := f.disk.fault(Write, f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	room := len(b)
	if err != nil {
		room = min(room, limit)
	}
	grow := offset + int64(len(b)) - int64(len(f.inode.data))
	if short := f.disk.used() + grow - f.disk.capacity; err == nil && grow > 0 && short > 0 {
		room = int(max(int64(room)-short, 0))
		err = syscall.ENOSPC
	}
	if room > 0 {
		f.inode.change(dataChange{offset, slices.Clone(b[:room])})
	}
	if err != nil {
		return room, &fs.PathError{Op: "write", Path: f.name, Err: err}
	}
	return len(b), nil
}

func (f *file) Truncate(size int64) error {
	if _, err := f.disk.fault(Truncate, f.name); err != nil {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: err}
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.inode.change(dataChange{offset: size})
	return nil
}

func (f *file) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return int64(len(f.inode.data)), nil
}

func (f *file) Sync() error {
	_, err := f.disk.fault(Sync, f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err != nil {
		if f.disk.LosesFailed {
			f.inode.loseUnsynced(f.disk.chance)
		}
		return &fs.PathError{Op: "sync", Path: f.name, Err: err}
	}
	if f.closed {
		return fs.ErrClosed
	}
	for _, c := range f.inode.unsynced {
		f.inode.durable = c.apply(f.inode.durable)
	}
	f.inode.unsynced = nil
	return nil
}

func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	return nil
}
