package broker

import (
	"context"
	"io"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
)

var (
	// ErrInMemory is the error of Backup for a server without Dir.
	ErrInMemory = node.ErrInMemory
	// ErrBackupRunning is the error of Backup while another backup of the server is in progress.
	ErrBackupRunning = store.ErrBackupRunning
	// ErrBackupSpace is the error of a backup that was given up because less than DiskReserve was free.
	ErrBackupSpace = store.ErrBackupSpace
	// ErrBadBackup is the error for a backup that is incomplete or damaged, or is no backup.
	ErrBadBackup = store.ErrBadBackup
	// ErrHasData is the error of RestoreDir for a directory that is not empty.
	ErrHasData = store.ErrHasData
	// ErrRestoring is the error for a directory of which RestoreDir was killed. Call RestoreDir again.
	ErrRestoring = store.ErrRestoring
)

// Backup writes a backup of a running server to w: everything that would survive a restart, as it was at one moment after
// the call. It contains everything that was confirmed before the call, and no message that was acked before the call.
// RestoreDir restores it. It starts the server if it does not run.
//
// The server works as usual meanwhile, and does not wait for w. Log files that it could remove are kept until they are
// written to w, so the directory can become larger by what it had when the backup began. If less than DiskReserve is free
// because of that, the backup ends with ErrBackupSpace. Only one backup at a time is possible.
//
// A backup that fails is incomplete. CheckBackup and RestoreDir report that, and why if w can still be written. If ctx
// ends, no files are kept from then on, even if a write to w blocks.
func (s *Server) Backup(ctx context.Context, w io.Writer) error {
	if err := s.Start(); err != nil {
		return err
	}
	return withCorrupt(s.node.Load().Backup(ctx, w))
}

// BackupDir writes a backup of the directory of a server that does not run to w. It changes nothing in the directory. It
// returns a *CorruptError if something is damaged.
func BackupDir(ctx context.Context, dir string, w io.Writer) error {
	return withCorrupt(store.Backup(ctx, store.Dir(dir), w))
}

// CheckBackup reads a backup to its end and compares its checksum. It returns ErrBadBackup if it is not complete.
func CheckBackup(ctx context.Context, r io.Reader) error { return store.CheckBackup(ctx, r) }

// RestoreDir creates the directory of a server from a backup. The directory must not exist or be empty. RestoreDir
// compares the checksum of the backup, reads everything in the directory once more, and syncs it. The report describes
// what was restored.
//
// If it fails, nothing is left in the directory. If the process is killed, a server does not start in the directory
// (ErrRestoring), and RestoreDir can be called again.
//
// A server that starts in the directory continues as after a crash at the moment of the backup: all messages are marked as
// redelivered, and time since then counts toward delays and TTLs.
func RestoreDir(ctx context.Context, dir string, r io.Reader) (Report, error) {
	report, err := store.Restore(ctx, store.Dir(dir), r)
	return newReport(report), withCorrupt(err)
}
