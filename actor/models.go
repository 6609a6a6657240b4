package actor

import (
	"crypto/sha256"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// maxModels bounds how many opened models a node remembers.
const maxModels = 256

// models opens each model once for all sessions that name it with the same data.
type models struct {
	opener func(name string, data []byte) (model.Model, error)

	mu    sync.Mutex // guards known
	known map[string]model.Model
}

func (m *models) open(name string, data []byte) (model.Model, error) {
	sum := sha256.Sum256(data)
	key := name + "\x00" + string(sum[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.known[key]; ok {
		return found, nil
	}
	opened, err := m.opener(name, data)
	if err != nil {
		return nil, err
	}
	if len(m.known) >= maxModels {
		clear(m.known)
	}
	m.known[key] = opened
	return opened, nil
}

// codeNotHere is the code of a model call whose model this node cannot open, but
// another one may.
const codeNotHere = "model_not_here"

// errNotHere ends a driver whose session is for another node.
var errNotHere = errors.New("the session's model cannot be opened on this node")

// unopened reports a call of a model that cannot be opened. If another node may open
// it, the call has failed for now only: it is tried again, after the session was
// handed over. So it ends with that failure if no node takes it that has the model.
func (d *driver) unopened(e loop.CallModel, err error) commands.Command {
	failed := commands.ReportModelFailed{
		ModelCall: e.ModelCall, Class: content.ClassInvalid, Code: "unknown_model", Message: err.Error(),
	}
	if other, ok := errors.AsType[elsewhere](err); ok && other.Elsewhere() {
		d.log.Warn("model cannot be opened on this node", zap.Error(err))
		failed.Class, failed.Code = content.ClassServer, codeNotHere
		failed.Message = "node " + d.node.cfg.Name + ": " + failed.Message
	}
	return failed
}

// elsewhere is an error of Config.Models that may tell that another node can do it.
type elsewhere interface {
	error
	Elsewhere() bool
}

// notHere reports whether a report says that the session should go to another node,
// and there is still something to do for it.
func (d *driver) notHere(c commands.Command) bool {
	f, ok := c.(commands.ReportModelFailed)
	return ok && f.Code == codeNotHere && d.State.Turn != nil
}
