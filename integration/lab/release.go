package lab

import (
	"os/exec"
	"strings"
	"testing"
)

// SingleOf is a fresh virtual host on the single node of a release of RabbitMQ, as 4.3, for tests that need two of them.
func SingleOf(t testing.TB, release string) *Rabbit {
	t.Helper()
	command := exec.Command(script(), "env")
	for name, value := range environment() {
		if !ofServers(name) && name != "REHOP_RABBITMQ" {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	command.Env = append(command.Environ(), "REHOP_RABBITMQ="+release)
	out, err := command.Output()
	if err != nil {
		Lack(t, "scripts/services env of RabbitMQ %s: %v", release, err)
	}
	found := make(map[string]string)
	readExports(found, out)
	if found["REHOP_RABBITMQ_URL"] == "" || found["REHOP_RABBITMQ_RELEASE"] != release {
		Lack(t, "RabbitMQ %s is not up: run scripts/services up rabbitmq-%s", release, release)
	}
	return fresh(t, []string{found["REHOP_RABBITMQ_URL"]}, []string{found["REHOP_RABBITMQ_MANAGEMENT"]}, []string{"single-" + release})
}

// Plugin enables plugins of RabbitMQ on the first node until the test has ended. That restarts its HTTP server, so the node is one that only this
// test uses; see AloneOf.
func (r *Rabbit) Plugin(names ...string) {
	r.t.Helper()
	const change = `F = rabbit_plugins:enabled_plugins_file(), {ok, [On]} = file:consult(F), Asked = [%s], New = %s, ok = file:write_file(F, io_lib:format("~p.", [New])), {ok, _, _} = rabbit_plugins:ensure(F).`
	run := func(list string) error {
		return r.TryServices("ctl", r.nodes[0], "eval", strings.Replace(strings.Replace(change, "%s", strings.Join(names, ","), 1), "%s", list, 1))
	}
	if err := run("lists:usort(On ++ Asked)"); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := run("On -- Asked"); err != nil {
			r.t.Error(err)
		}
	})
}
