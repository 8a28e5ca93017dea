package env

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports to choose from. The kernel uses those from 32768 upwards, for connections and for listeners that ask for any
// port. Such a port may be taken before the program that is to use it listens.
const (
	portsFrom  = 10000
	portsBelow = 32768
	portTries  = 1000
)

// claims has the sockets that reserve ports for this process; an unreferenced socket would be closed.
var claims struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreePorts returns n ports of 127.0.0.1 that belong to this process until it ends, also between the programs that
// listen on them: after a program was killed, the next can listen on its port. Use it only for programs that cannot
// listen on port 0.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// freePort claims a port by its UDP socket: every process that calls FreePorts sees the claim, and it ends with this process.
func freePort() (int, error) {
	var last error
	for range portTries {
		port := portsFrom + rand.IntN(portsBelow-portsFrom)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			last = err
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			last = errors.Join(err, claim.Close())
			continue
		}
		claims.Lock()
		claims.sockets = append(claims.sockets, claim)
		claims.Unlock()
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port in %d tries: %w", portTries, last)
}
