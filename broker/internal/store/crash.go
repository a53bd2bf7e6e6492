package store

// CrashPoints names the points at which Options.Crash is called.
func CrashPoints() []string {
	return []string{
		pointBeforeWrite, pointAfterWrite, pointAfterSync, pointAfterConfirm,
		pointSealed, pointCreated, pointRolled, pointIndexed,
		pointCopied, pointDiscarded, pointRemoved,
		pointSnapshot, pointRenamed,
		pointRecovering, pointReplayed, pointRecovered, pointClosing, pointClosed,
	}
}

const (
	pointBeforeWrite  = "before a group is written"
	pointAfterWrite   = "after a group is written"
	pointAfterSync    = "after a group is synced"
	pointAfterConfirm = "after a group is confirmed"
	pointSealed       = "after a segment is sealed"
	pointCreated      = "after a segment is created"
	pointRolled       = "after a segment is durable"
	pointIndexed      = "after an index is written"
	pointCopied       = "after messages are copied"
	pointDiscarded    = "after a segment is discarded"
	pointRemoved      = "after a segment is removed"
	pointSnapshot     = "after definitions are rewritten"
	pointRenamed      = "after definitions are renamed"
	pointRecovering   = "before the log is read"
	pointReplayed     = "after the log is read"
	pointRecovered    = "after the log is repaired"
	pointClosing      = "before the end is noted"
	pointClosed       = "after the end is noted"
)
