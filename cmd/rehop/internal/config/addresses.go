package config

import (
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

var (
	// addressKeys are the keys for where the broker is, and who may log in.
	addressKeys = []string{"broker", "management", "tls", "data", "listen", "users"}
	// indexKeys are the keys for where the index of failed messages is.
	indexKeys = []string{"data", "triage"}
)

// Addresses reads only where the broker of a file is, and how an operator logs in. Clients use it: errors in the other parts of the file, such as
// secrets that only the service has in its environment, do not matter to them. So of the users it reads only the operator.
func Addresses(path string) (*File, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	// Who the operator is does not depend on values of the environment, which can be missing here.
	anything := &reader{path: path, env: func(string) (string, bool) { return "", true }}
	operator := anything.only(addressKeys, text).Operator()
	r := &reader{path: path, env: os.LookupEnv, client: true, onlyUser: operator.Name}
	file := r.only(addressKeys, text)
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	return file, nil
}

// Index reads only where the index of failed messages of a file is, for commands that use it: Data, Triage and NamesBroker. Errors in the other parts of
// the file do not matter to them.
func Index(path string) (*File, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, env: os.LookupEnv, client: true}
	file := r.only(indexKeys, text)
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	return file, nil
}

// only reads a file as if it had no other keys.
func (r *reader) only(names []string, text []byte) *File {
	file := &File{Path: r.path}
	root := r.document(text)
	if root == nil || root.Kind != yaml.MappingNode {
		return file
	}
	kept := *root
	kept.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "broker" && root.Content[i+1].Tag != "!!null" {
			file.NamesBroker = true
		}
		if slices.Contains(names, root.Content[i].Value) {
			kept.Content = append(kept.Content, root.Content[i], root.Content[i+1])
		}
	}
	r.file(&kept, file)
	return file
}

// Operator is the user of the embedded broker for commands on this machine: the first administrator, else the first user, else guest.
func (f *File) Operator() User {
	if len(f.Users) == 0 {
		return User{Name: localUser, Password: localUser}
	}
	i := slices.IndexFunc(f.Users, func(u User) bool { return slices.Contains(u.Tags, "administrator") })
	return f.Users[max(i, 0)]
}
