package wire

type ConfirmSelect struct{ NoWait bool }
type ConfirmSelectOK struct{}
type TxSelect struct{}
type TxSelectOK struct{}
type TxCommit struct{}
type TxCommitOK struct{}
type TxRollback struct{}
type TxRollbackOK struct{}

func (*ConfirmSelect) ID() MethodID   { return IDConfirmSelect }
func (*ConfirmSelectOK) ID() MethodID { return IDConfirmSelectOK }
func (*TxSelect) ID() MethodID        { return IDTxSelect }
func (*TxSelectOK) ID() MethodID      { return IDTxSelectOK }
func (*TxCommit) ID() MethodID        { return IDTxCommit }
func (*TxCommitOK) ID() MethodID      { return IDTxCommitOK }
func (*TxRollback) ID() MethodID      { return IDTxRollback }
func (*TxRollbackOK) ID() MethodID    { return IDTxRollbackOK }
