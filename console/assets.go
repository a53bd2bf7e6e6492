package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets
var assetFiles embed.FS

// assetsPath is where assets are, below the base.
const assetsPath = "assets/"

// assets are the style, the script and the icon. Their names have a hash of their content, so browsers keep them without asking.
type assets struct {
	paths  map[string]string // by file name
	byName map[string]asset  // by name with hash
}

type asset struct {
	kind    string
	content []byte
}

func readAssets() (assets, error) {
	a := assets{paths: make(map[string]string), byName: make(map[string]asset)}
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		return a, err
	}
	for _, f := range files {
		content, err := assetFiles.ReadFile("assets/" + f.Name())
		if err != nil {
			return a, err
		}
		sum := sha256.Sum256(content)
		ending := path.Ext(f.Name())
		name := strings.TrimSuffix(f.Name(), ending) + "." + hex.EncodeToString(sum[:8]) + ending
		kind := mime.TypeByExtension(ending)
		if ending == ".js" || ending == ".css" {
			kind = map[string]string{".js": "text/javascript", ".css": "text/css"}[ending] + "; charset=utf-8" // whatever the system's table has
		}
		a.paths[f.Name()], a.byName[name] = assetsPath+name, asset{kind, content}
	}
	return a, nil
}

// path is that of a file, below the base.
func (a assets) path(file string) string { return a.paths[file] }

func (a assets) serve(w http.ResponseWriter, r *http.Request, name string) {
	found, exists := a.byName[name]
	switch {
	case !exists:
		http.Error(w, "there is no such file; load the page again", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET")
		http.Error(w, "this is a file", http.StatusMethodNotAllowed)
	default:
		h := w.Header()
		h.Set("Content-Type", found.kind)
		h.Set("Content-Length", strconv.Itoa(len(found.content)))
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		if r.Method == http.MethodGet {
			_, _ = w.Write(found.content) // the client may have gone
		}
	}
}
