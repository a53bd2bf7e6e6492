package wire

type ConfirmSelect struct {
	NoWait bool
}

func (*ConfirmSelect) ID() MethodID { return IDConfirmSelect }

func (m *ConfirmSelect) arguments(c *codec) { c.bits(&m.NoWait) }

type ConfirmSelectOK struct{}

func (*ConfirmSelectOK) ID() MethodID { return IDConfirmSelectOK }

func (*ConfirmSelectOK) arguments(*codec) {}

type TxSelect struct{}

func (*TxSelect) ID() MethodID { return IDTxSelect }

func (*TxSelect) arguments(*codec) {}

type TxSelectOK struct{}

func (*TxSelectOK) ID() MethodID { return IDTxSelectOK }

func (*TxSelectOK) arguments(*codec) {}

type TxCommit struct{}

func (*TxCommit) ID() MethodID { return IDTxCommit }

func (*TxCommit) arguments(*codec) {}

type TxCommitOK struct{}

func (*TxCommitOK) ID() MethodID { return IDTxCommitOK }

func (*TxCommitOK) arguments(*codec) {}

type TxRollback struct{}

func (*TxRollback) ID() MethodID { return IDTxRollback }

func (*TxRollback) arguments(*codec) {}

type TxRollbackOK struct{}

func (*TxRollbackOK) ID() MethodID { return IDTxRollbackOK }

func (*TxRollbackOK) arguments(*codec) {}
