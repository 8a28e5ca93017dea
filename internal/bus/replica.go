package bus

// Replica names this process among its peers. No process before it had the name, and none will have it after.
func (b *Bus) Replica() string { return b.members.self }

// Alive reports whether a replica of that name runs. The first seconds after the start it does not know of all.
func (b *Bus) Alive(replica string) bool { return b.members.alive(replica) }
