package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image is an OCI image with one manifest for each processor. It is written as an OCI layout, without a container engine.
type image struct {
	release      release
	file         containerfile
	certificates []byte
	blobs        tree
	manifests    []descriptor
}

// The parts of the OCI image format that an image uses.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
		Platform    *imagePlatform    `json:"platform,omitempty"`
	}
	imagePlatform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	imageIndex struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Manifests     []descriptor      `json:"manifests"`
		Annotations   map[string]string `json:"annotations,omitempty"`
	}
	imageManifest struct {
		SchemaVersion int               `json:"schemaVersion"`
		MediaType     string            `json:"mediaType"`
		Config        descriptor        `json:"config"`
		Layers        []descriptor      `json:"layers"`
		Annotations   map[string]string `json:"annotations,omitempty"`
	}
	imageConfig struct {
		Created string `json:"created"`
		imagePlatform
		Config  runConfig      `json:"config"`
		RootFS  rootFS         `json:"rootfs"`
		History []historyEntry `json:"history"`
	}
	runConfig struct {
		User         string              `json:"User"`
		ExposedPorts map[string]struct{} `json:"ExposedPorts"`
		Entrypoint   []string            `json:"Entrypoint"`
		Cmd          []string            `json:"Cmd"`
		Volumes      map[string]struct{} `json:"Volumes"`
		Labels       map[string]string   `json:"Labels"`
		StopSignal   string              `json:"StopSignal"`
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	historyEntry struct {
		Created   string `json:"created"`
		CreatedBy string `json:"created_by"`
	}
)

func (r release) newImage() (*image, error) {
	text, err := r.source.read("deploy/Containerfile")
	if err != nil {
		return nil, err
	}
	file, err := parseContainerfile(string(text))
	if err != nil {
		return nil, err
	}
	certificates, err := readCertificates(r.certificates)
	if err != nil {
		return nil, err
	}
	return &image{release: r, file: file, certificates: certificates, blobs: tree{time: r.source.time}}, nil
}

func (i *image) platforms() int { return len(i.manifests) }

// labels are those that registries and tools show.
func (i *image) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "rehop",
		"org.opencontainers.image.description": "Reliable messaging for RabbitMQ",
		"org.opencontainers.image.version":     i.release.version.number(),
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://" + mainModule,
		"org.opencontainers.image.created":     i.release.source.time.Format(time.RFC3339),
		// Who builds the same image again needs the same certificates.
		mainModule + ".certificates": digest(i.certificates),
	}
	if revision := i.release.source.revision; revision != "" {
		labels["org.opencontainers.image.revision"] = revision
	}
	return labels
}

// add adds the image of a processor.
func (i *image) add(arch string, binary []byte) error {
	files, err := i.layer(binary)
	if err != nil {
		return err
	}
	unpacked, err := files.tar("")
	if err != nil {
		return err
	}
	layer, err := zipped(unpacked)
	if err != nil {
		return err
	}
	created := i.release.source.time.Format(time.RFC3339)
	on := imagePlatform{arch, "linux"}
	config := imageConfig{
		Created: created, imagePlatform: on,
		Config: runConfig{
			User: i.file.user, ExposedPorts: set(i.file.ports, "/tcp"), Entrypoint: i.file.entrypoint, Cmd: i.file.command,
			Volumes: set(i.file.volumes, ""), Labels: i.labels(), StopSignal: i.file.stopSignal,
		},
		RootFS:  rootFS{"layers", []string{digest(unpacked)}},
		History: []historyEntry{{created, "make release VERSION=" + string(i.release.version)}},
	}
	configBlob, err := i.addJSON(configType, config)
	if err != nil {
		return err
	}
	manifest, err := i.addJSON(manifestType, imageManifest{
		SchemaVersion: 2, MediaType: manifestType, Config: configBlob, Layers: []descriptor{i.addBlob(layerType, layer)}, Annotations: i.labels(),
	})
	manifest.Platform = &on
	i.manifests = append(i.manifests, manifest)
	return err
}

// layer is the file system, as the Containerfile has it.
func (i *image) layer(binary []byte) (*tree, error) {
	t := &tree{time: i.release.source.time}
	for _, c := range i.file.copies {
		e := entry{name: strings.TrimPrefix(c.to, "/"), mode: 0o644, owner: c.owner}
		switch c.from {
		case "/etc/ssl/certs/ca-certificates.crt":
			e.body = i.certificates
		case "/out/rehop":
			e.mode, e.body = 0o755, binary
		case "/out/state":
			e.mode, e.name = 0o755, e.name+"/"
		default:
			return nil, fmt.Errorf("deploy/Containerfile copies %s, which the release does not know", c.from)
		}
		t.entries = append(t.entries, e)
	}
	return t, nil
}

func (i *image) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return i.addBlob(mediaType, data), nil
}

func (i *image) addBlob(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	i.blobs.add("blobs/"+strings.Replace(d.Digest, ":", "/", 1), 0o644, data)
	return d
}

// archive is the whole image in one file: its name, and its bytes.
func (i *image) archive() (name string, data []byte, err error) {
	number := i.release.version.number()
	whole, err := i.addJSON(indexType, imageIndex{SchemaVersion: 2, MediaType: indexType, Manifests: i.manifests, Annotations: i.labels()})
	if err != nil {
		return "", nil, err
	}
	// podman and Docker name what they load by the second one, skopeo by the first.
	whole.Annotations = map[string]string{"org.opencontainers.image.ref.name": number, "io.containerd.image.name": "localhost/rehop:" + number}
	index, err := json.Marshal(imageIndex{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{whole}})
	if err != nil {
		return "", nil, err
	}
	i.blobs.add("index.json", 0o644, index)
	i.blobs.add("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	data, err = i.blobs.tar("")
	return fmt.Sprintf("rehop_%s_oci.tar", number), data, err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func set(names []string, suffix string) map[string]struct{} {
	all := make(map[string]struct{})
	for _, name := range names {
		all[name+suffix] = struct{}{}
	}
	return all
}
