package triaging

import (
	"testing"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/triages"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	triages.Run(t, func(t testing.TB) triages.Database { return standard(lab.Postgres(t), dialect.Postgres) })
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	triages.Run(t, func(t testing.TB) triages.Database { return standard(lab.MariaDB(t), dialect.MySQL) })
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	triages.Run(t, func(t testing.TB) triages.Database { return standard(lab.MySQL(t), dialect.MySQL) })
}

func standard(d *lab.Database, speaks dialect.Dialect) triages.Database {
	return triages.Database{Dialect: speaks, Open: d.Open}
}
