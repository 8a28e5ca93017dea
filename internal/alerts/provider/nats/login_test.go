package nats

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/providertest"
	"notifier/internal/event"
)

// user returns a new key of a user.
func user(t *testing.T) (pair nkeys.KeyPair, public, seed string) {
	t.Helper()
	return key(t, nkeys.CreateUser)
}

func key(t *testing.T, create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public, seed string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, publicErr := pair.PublicKey()
	raw, seedErr := pair.Seed()
	if publicErr != nil || seedErr != nil {
		t.Fatal(publicErr, seedErr)
	}
	return pair, public, string(raw)
}

// operated starts a server whose users have credentials of an operator's account, and returns the credentials of one user.
func operated(t *testing.T) (s *server.Server, creds string) {
	t.Helper()
	operator, operatorID, _ := key(t, nkeys.CreateOperator)
	account, accountID, _ := key(t, nkeys.CreateAccount)
	_, userID, userSeed := user(t)
	operatorClaims := jwt.NewOperatorClaims(operatorID)
	operatorJWT, err := operatorClaims.Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	accountJWT, err := jwt.NewAccountClaims(accountID).Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	userJWT, err := jwt.NewUserClaims(userID).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := jwt.DecodeOperatorClaims(operatorJWT)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountID, accountJWT); err != nil {
		t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(userJWT, []byte(userSeed))
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{trusted}, resolver
	}), string(file)
}

// Fails when a login is not used, or not in its order: each server accepts only its own.
func TestTheSecretLogsInInTheOrderOfItsKeys(t *testing.T) {
	_, public, seed := user(t)
	_, _, otherSeed := user(t)
	byKey := start(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	byCreds, creds := operated(t)
	byPassword := start(t, func(o *server.Options) { o.Username, o.Password = "flux", "password-s3cret" })
	byToken := start(t, func(o *server.Options) { o.Authorization = "token-s3cret" })
	values := func(creds, seed string) map[string]string { return map[string]string{"creds": creds, "nkey": seed} }
	for name, c := range map[string]struct {
		server *server.Server
		cfg    provider.Config
	}{
		"creds before the rest":     {byCreds, provider.Config{Values: values(creds, otherSeed), Username: "flux", Password: "x", Token: "x"}},
		"nkey before the rest":      {byKey, provider.Config{Values: values("", seed), Username: "flux", Password: "x", Token: "x"}},
		"password before the token": {byPassword, provider.Config{Username: "flux", Password: "password-s3cret", Token: "x"}},
		"token":                     {byToken, provider.Config{Token: "token-s3cret"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, user := range []string{"", "other:wrong@"} {
				c.cfg.Address = strings.Replace(c.server.ClientURL(), "nats://", "nats://"+user, 1)
				if err := newSender(t, c.cfg).Send(t.Context(), info(t)); err != nil {
					t.Errorf("with the Secret: %v", err)
				}
			}
			e := event.AsError(newSender(t, provider.Config{Address: c.server.ClientURL(), Token: "wrong-s3cret"}).Send(t.Context(), info(t)))
			if e.Class != event.Permanent || e.Label != provider.LabelRejected || strings.Contains(e.Error(), "s3cret") {
				t.Errorf("with another token: class %d, label %s, %s", e.Class, e.Label, e)
			}
		})
	}
	if err := newSender(t, provider.Config{
		Address: strings.Replace(byPassword.ClientURL(), "nats://", "nats://flux:password-s3cret@", 1),
	}).Send(t.Context(), info(t)); err != nil {
		t.Errorf("with the address's own user: %v", err)
	}
}

// Fails when the servers are divided at a comma of a password. What is before it then has the user's name for a host, which is looked up.
func TestAPasswordInTheAddressMayHaveAComma(t *testing.T) {
	server := start(t, func(o *server.Options) { o.Username, o.Password = "flux", "1,s3cret" })
	address := strings.Replace(server.ClientURL(), "nats://", "nats://flux:1%2Cs3cret@", 1)
	for _, servers := range []string{address, "nats://" + providertest.Refusing + "," + address} {
		if err := newSender(t, provider.Config{Address: servers}).Send(t.Context(), info(t)); err != nil {
			t.Errorf("%v (%v)", err, errors.Unwrap(err))
		}
	}
}

// Fails when only the first message reveals a Secret that cannot log in, or when the Secret is quoted.
func TestABadLoginIsRefused(t *testing.T) {
	_, _, seed := key(t, nkeys.CreateAccount)
	for says, cfg := range map[string]provider.Config{
		"key creds":    {Values: map[string]string{"creds": "s3cret"}},
		"key nkey":     {Values: map[string]string{"nkey": "s3cret"}},
		"seed of a":    {Values: map[string]string{"nkey": seed}},
		"key username": {Password: "s3cret"},
	} {
		cfg.Address, cfg.Channel, cfg.Network = "nats://127.0.0.1", "a", providertest.Loopback()
		s, err := New(cfg)
		if err == nil || s != nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), seed) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// Fails when a subject is accepted that adds another line of the protocol, or publishes to many.
func TestOnlySubjectsToPublishToAreTaken(t *testing.T) {
	for subject, fine := range map[string]bool{
		"flux": true, "flux.team-a.events": true, "a*b": true, "ä": true,
		"": false, "flux.*": false, "flux.>": false, "a b": false, "a\r\nPUB b 1": false, "a\tb": false, ".a": false, "a..b": false, "a.": false,
		strings.Repeat("a", 1025): false,
	} {
		s, err := New(provider.Config{Address: "nats://127.0.0.1", Channel: subject, Network: providertest.Loopback()})
		if (err == nil) != fine {
			t.Errorf("%.20q: %v", subject, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}

// Fails when the server's refusal of a publish goes unseen. It arrives after the library's publish has returned, and is the only
// answer to it.
func TestAPublishWithoutPermissionIsAFailedSend(t *testing.T) {
	server := start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "flux", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"secret.subject"}},
		}}}
	})
	for _, stream := range []bool{false, true} {
		s := newSender(t, provider.Config{Address: server.ClientURL(), Channel: "secret.subject", Username: "flux", Password: "p", JetStream: stream})
		e := event.AsError(s.Send(t.Context(), info(t)))
		if e.Class != event.Permanent || e.Error() != "NATS: no permission to publish to the subject" {
			t.Errorf("JetStream %v: class %d, %s", stream, e.Class, e)
		}
	}
}

// Fails when a repaired permission is not noticed: the library keeps the last error for as long as the connection lives.
func TestAMendedPermissionIsNoticed(t *testing.T) {
	users := func(deny string) []*server.User {
		return []*server.User{{Username: "flux", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{deny}}}}}
	}
	var options *server.Options
	server := start(t, func(o *server.Options) { o.Users = users("flux.events"); options = o })
	s := newSender(t, provider.Config{Address: server.ClientURL(), Username: "flux", Password: "p"})
	if s.Send(t.Context(), info(t)) == nil {
		t.Fatal("the publish was not refused")
	}
	mended := options.Clone()
	mended.Users, mended.Port = users("other"), server.Addr().(*net.TCPAddr).Port
	if err := server.ReloadOptions(mended); err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), info(t)); err != nil {
		t.Error(err)
	}
}
