package sqltext

import (
	"strings"

	"github.com/rehop/rehop/dialect"
)

// WriteDown inserts a message into the inbox, or nothing if it is there: its arguments are the consumer and the message's id. It waits
// while another transaction has inserted the same. While it waits MariaDB lets nobody insert an id beside this one, so there it does not
// wait but fails; see IsLocked.
func WriteDown(d dialect.Dialect) string {
	insert := InsertNew(d, "rehop_inbox", "consumer, message_id, handled", "?, ?, "+d.Now())
	if d == dialect.MySQL {
		return "/*M!100600 SET STATEMENT innodb_lock_wait_timeout=0 FOR */ " + insert // MySQL takes it for a comment
	}
	return d.Bind(insert)
}

// IsLocked reports whether a statement has failed because it would have had to wait for another transaction.
func IsLocked(d dialect.Dialect, err error) bool {
	return d == dialect.MySQL && strings.Contains(err.Error(), "Error 1205")
}

// StillThere changes the row that WriteDown has inserted, whose number is its argument: it changes none if the transaction was rolled back
// meanwhile. An empty statement: then nothing could be committed anyway.
func StillThere(d dialect.Dialect) string {
	if d != dialect.MySQL {
		return ""
	}
	return "UPDATE rehop_inbox SET handled = handled + 1 WHERE id = ?"
}
