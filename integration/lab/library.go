package lab

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Library is an AMQP client of another language, and what runs programs that use it.
type Library struct {
	Name        string
	interpreter string            // the one for which the library is installed
	probe       []string          // arguments with which the interpreter fails if the library is not there
	needs       map[string]string // the environment of programs, as settings of scripts/services
}

// The libraries that scripts/services installs.
var (
	Pika       = Library{Name: "pika", interpreter: "/usr/bin/python3", probe: []string{"-c", "import pika"}}
	Bunny      = Library{Name: "bunny", interpreter: "/usr/bin/ruby", probe: []string{"-e", "require 'bunny'"}}
	PHPAmqplib = Library{Name: "php-amqplib", interpreter: "/usr/bin/php", probe: []string{"-r", "require 'PhpAmqpLib/autoload.php';"}}
	Amqplib    = Library{Name: "amqplib", interpreter: "node", probe: []string{"-e", "require('amqplib')"},
		needs: map[string]string{"NODE_PATH": "REHOP_CLIENTS_NODE_PATH"}}
	Rascal = Library{Name: "rascal", interpreter: "node", probe: []string{"-e", "require('rascal')"},
		needs: map[string]string{"NODE_PATH": "REHOP_CLIENTS_NODE_PATH"}}
	Celery    = Library{Name: "celery", interpreter: "/usr/bin/python3", probe: []string{"-c", "import celery"}}
	AMQPTools = Library{Name: "amqp-tools", interpreter: "/bin/sh", probe: []string{"-c", "amqp-get --usage"}}
)

// Require ends a test that lacks the library.
func (l Library) Require(t testing.TB) {
	t.Helper()
	if out, err := l.Command(t.Context(), t, l.probe...).CombinedOutput(); err != nil {
		Lack(t, "%s is not installed, run scripts/services up clients: %v\n%s", l.Name, err, out)
	}
}

// Command runs a program with its arguments.
func (l Library) Command(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(ctx, l.interpreter, args...)
	command.Env = os.Environ()
	for name, setting := range l.needs {
		command.Env = append(command.Env, name+"="+Setting(t, setting))
	}
	command.WaitDelay = time.Second // for children of the program that hold its output open
	return command
}
