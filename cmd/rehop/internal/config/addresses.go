package config

import (
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// addressKeys are the keys for where the broker is, and who may log in.
var addressKeys = []string{"broker", "management", "tls", "data", "listen", "users"}

// Addresses reads only where the broker of a file is, and who may log in. Clients use it: errors in the other parts of the file, such as secrets
// that only the service has in its environment, do not matter to them.
func Addresses(path string) (*File, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, env: os.LookupEnv}
	file := &File{Path: path}
	if root := r.document(text); root != nil && root.Kind == yaml.MappingNode {
		kept := *root
		kept.Content = nil
		for i := 0; i+1 < len(root.Content); i += 2 {
			if slices.Contains(addressKeys, root.Content[i].Value) {
				kept.Content = append(kept.Content, root.Content[i], root.Content[i+1])
			}
		}
		r.file(&kept, file)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	return file, nil
}

// Operator is the user of the embedded broker for commands on this machine: the first administrator, else the first user, else guest.
func (f *File) Operator() User {
	if len(f.Users) == 0 {
		return User{Name: localUser, Password: localUser}
	}
	i := slices.IndexFunc(f.Users, func(u User) bool { return slices.Contains(u.Tags, "administrator") })
	return f.Users[max(i, 0)]
}
