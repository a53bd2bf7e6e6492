package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// containerfile is the last stage of deploy/Containerfile, so that an image of the release is the one that podman would build.
type containerfile struct {
	user, stopSignal    string
	volumes, ports      []string
	entrypoint, command []string
	copies              []copied
}

// copied is a file or directory that a stage takes from the one before it.
type copied struct {
	from, to string
	owner    int // user and group
}

// parseContainerfile knows the instructions that the file has, and refuses others, because an image without them would differ.
func parseContainerfile(text string) (containerfile, error) {
	var c containerfile
	for number, line := range strings.Split(text, "\n") {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch instruction {
		case "", "#":
		case "FROM":
			c = containerfile{} // another stage
		case "COPY":
			var f copied
			f, err = parseCopy(rest)
			c.copies = append(c.copies, f)
		case "USER":
			c.user = rest
		case "STOPSIGNAL":
			c.stopSignal = rest
		case "VOLUME":
			c.volumes = strings.Fields(rest)
		case "EXPOSE":
			c.ports = strings.Fields(rest)
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &c.entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(rest), &c.command)
		case "WORKDIR", "ENV", "RUN": // of the stage that compiles, which is binary.go here
		default:
			err = fmt.Errorf("the release does not know the instruction %s", instruction)
		}
		if err != nil {
			return containerfile{}, fmt.Errorf("line %d of deploy/Containerfile: %w", number+1, err)
		}
	}
	return c, nil
}

// parseCopy reads the arguments of COPY: --from=stage, --chown=user:group, a source and a destination.
func parseCopy(rest string) (f copied, err error) {
	var names []string
	for _, word := range strings.Fields(rest) {
		flag, value, _ := strings.Cut(word, "=")
		switch {
		case flag == "--from":
		case flag == "--chown":
			user, group, _ := strings.Cut(value, ":")
			if f.owner, err = strconv.Atoi(user); err != nil || group != user {
				return copied{}, fmt.Errorf("--chown=%s: want a number for the user, and the same for the group", value)
			}
		case strings.HasPrefix(word, "--"):
			return copied{}, fmt.Errorf("the release does not know the flag %s of COPY", word)
		default:
			names = append(names, word)
		}
	}
	if len(names) != 2 {
		return copied{}, fmt.Errorf("COPY has %d names, want a source and a destination", len(names))
	}
	f.from, f.to = names[0], names[1]
	return f, nil
}
