package wire

type ConfirmSelect struct {
	NoWait bool
}

func (*ConfirmSelect) ID() MethodID         { return IDConfirmSelect }
func (m *ConfirmSelect) arguments(c *codec) { c.bits(&m.NoWait) }

type ConfirmSelectOK struct{ noArguments }

func (*ConfirmSelectOK) ID() MethodID { return IDConfirmSelectOK }

type TxSelect struct{ noArguments }

func (*TxSelect) ID() MethodID { return IDTxSelect }

type TxSelectOK struct{ noArguments }

func (*TxSelectOK) ID() MethodID { return IDTxSelectOK }

type TxCommit struct{ noArguments }

func (*TxCommit) ID() MethodID { return IDTxCommit }

type TxCommitOK struct{ noArguments }

func (*TxCommitOK) ID() MethodID { return IDTxCommitOK }

type TxRollback struct{ noArguments }

func (*TxRollback) ID() MethodID { return IDTxRollback }

type TxRollbackOK struct{ noArguments }

func (*TxRollbackOK) ID() MethodID { return IDTxRollbackOK }
