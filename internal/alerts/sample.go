package alerts

// sample reports to the ledger how many deliveries of the queue wait: on the bus, in memory, or under way.
func (s *shard) sample(q *queue) {
	if n := q.entries - q.told; n != 0 {
		q.told = q.entries
		s.Reports.count(objectName{kindProvider, q.key.Namespace, q.key.Provider}, n, 0)
	}
	if n := q.unlearned - q.toldUnlearned; n != 0 {
		q.toldUnlearned = q.unlearned
		s.Reports.unlearned(q.key.Namespace, n)
	}
	for key, o := range q.owners {
		if n := o.pending - o.told; n != 0 {
			o.told = o.pending
			s.Reports.count(objectName{kindAlert, q.key.Namespace, o.named.alert}, n, 0)
		}
		if o.pending == 0 {
			delete(q.owners, key)
		}
	}
}

// takeBack subtracts the shard's counts from the shares and the ledger: its next owner counts anew.
func (s *shard) takeBack() {
	for key, q := range s.queues {
		q.count(-q.entries, -q.givenUp, -q.kib)
		s.shares.use(key.Namespace, -1)
		q.unlearned = 0
		for _, o := range q.owners {
			o.pending = 0
		}
		s.sample(q)
	}
	for key := range s.dead.of {
		s.dead.set(key, 0, nil)
	}
}

// tellHealth reports the health of the destination to the ledger.
func (s *shard) tellHealth(q *queue) {
	if q.entries == 0 && q.told > 0 {
		s.sample(q)
	}
	if q.news {
		q.news = false
		s.sample(q)
		s.Reports.health(kindProvider, q.key.Namespace, q.key.Provider, q.healthOf, q.health)
	}
}
