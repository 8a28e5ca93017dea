package env

import (
	"os"
	"path/filepath"
	"testing"
)

// Fails when an audit that begins while a line is being written takes the rest of it for an entry, or omits the entry
// after it.
func TestAnAuditBeginsBehindTheLineThatIsBeingWritten(t *testing.T) {
	for name, before := range map[string]string{
		"an empty log": "", "a whole line": `{"auditID":"old"}` + "\n", "a part of a line": `{"auditID":"older"}` + "\n" + `{"audit`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			log, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			write := func(text string) {
				if _, err := log.WriteString(text); err != nil {
					t.Fatal(err)
				}
			}
			write(before)
			a, err := auditOf(file)
			if err != nil {
				t.Fatal(err)
			}
			if name == "a part of a line" {
				write(`ID":"old"}` + "\n")
			}
			write(`{"auditID":"new"}` + "\n" + `{"auditID":"ne`)
			for range 2 {
				if got, err := a.Entries(); err != nil || len(got) != 1 || got[0].AuditID != "new" {
					t.Errorf("entries %+v, %v", got, err)
				}
			}
		})
	}
}
