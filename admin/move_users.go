package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// account is a user with its permissions in the virtual host.
type account struct {
	Name      string `json:"name"`
	Hash      string `json:"password_hash"`
	Algorithm string `json:"hashing_algorithm"`
	Tags      any    `json:"tags"`
	rights    []map[string]any
	topics    []map[string]any
}

// defaultUser is the user that every broker begins with.
const defaultUser = "guest"

// users are the users with permissions in the virtual host that the target lacks, or that have no permissions there yet.
func (m *move) users(ctx context.Context, p *MovePlan) ([]account, error) {
	here, err := m.from.management.accounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("list users of the source: %w", err)
	}
	there, err := m.to.management.accounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("list users of the target: %w", err)
	}
	var lacking []account
	for _, u := range here {
		i := slices.IndexFunc(there, func(t account) bool { return t.Name == u.Name })
		switch {
		case !u.isPermitted():
		case u.Name == defaultUser:
			p.note("user %q is not moved: it is the default user, with a password that everybody knows", u.Name)
		case i < 0, there[i].Hash == u.Hash && !there[i].isPermitted():
			lacking = append(lacking, u)
		case there[i].Hash != u.Hash:
			p.note("user %q exists on the target with another password, and stays unchanged", u.Name)
		}
	}
	return lacking, nil
}

// isPermitted reports whether a user may do something in the virtual host.
func (u account) isPermitted() bool { return len(u.rights)+len(u.topics) > 0 }

// accounts are all users, with their permissions in the virtual host.
func (m *management) accounts(ctx context.Context) (all []account, err error) {
	var rights, topics []map[string]any
	for _, list := range []struct {
		path string
		out  any
	}{{"/api/users", &all}, {"/api/vhosts/%s/permissions", &rights}, {"/api/vhosts/%s/topic-permissions", &topics}} {
		if err := m.get(ctx, list.path, list.out); err != nil {
			return nil, fmt.Errorf("%w; moving users needs a login with the tag administrator on both brokers", err)
		}
	}
	for i := range all {
		others := func(right map[string]any) bool { return right["user"] != all[i].Name }
		all[i].rights, all[i].topics = slices.DeleteFunc(slices.Clone(rights), others), slices.DeleteFunc(slices.Clone(topics), others)
	}
	return all, nil
}

// moveUsers creates users on the target, with their permissions there.
func (m *move) moveUsers(ctx context.Context) error {
	users, err := m.users(ctx, new(MovePlan))
	if err != nil {
		return err
	}
	api := m.to.management
	put := func(path string, in any) error { return api.call(ctx, http.MethodPut, path, in, nil) }
	for _, u := range users {
		err := put("/api/users/"+url.PathEscape(u.Name), u)
		for _, right := range u.rights {
			err = errors.Join(err, put(api.path("/api/permissions/%s/%s", u.Name), only(right, "configure", "write", "read")))
		}
		for _, right := range u.topics {
			err = errors.Join(err, put(api.path("/api/topic-permissions/%s/%s", u.Name), only(right, "exchange", "write", "read")))
		}
		if err != nil {
			return fmt.Errorf("create user %q on the target: %w", u.Name, err)
		}
	}
	return nil
}

// only are some values of a table.
func only(table map[string]any, names ...string) map[string]any {
	some := maps.Clone(table)
	maps.DeleteFunc(some, func(name string, _ any) bool { return !slices.Contains(names, name) })
	return some
}
