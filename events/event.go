package events

// Event is a fact about a session, in the past tense. It is sealed: the kinds
// are the structs of this package.
//
//sumtype:decl
type Event interface {
	event()
}

func (DriverClaimed) event()      {}
func (Parked) event()             {}
func (RunStarted) event()         {}
func (ConfigChanged) event()      {}
func (InputQueued) event()        {}
func (InputAccepted) event()      {}
func (TurnStarted) event()        {}
func (RoundStarted) event()       {}
func (RoundFinished) event()      {}
func (ModelCallStarted) event()   {}
func (ModelCallFailed) event()    {}
func (ContentDelta) event()       {}
func (ReplyRecorded) event()      {}
func (UsageUpdated) event()       {}
func (ToolCallRequested) event()  {}
func (ToolCatalogChanged) event() {}
func (ApprovalRequired) event()   {}
func (ApprovalResolved) event()   {}
func (ToolDispatched) event()     {}
func (ToolAttemptLost) event()    {}
func (DeadLetterSettled) event()  {}
func (ToolDetached) event()       {}
func (ToolProgress) event()       {}
func (ToolResultReceived) event() {}
func (HookDecided) event()        {}
func (MutationStarted) event()    {}
func (MutationFinished) event()   {}
func (LimitReached) event()       {}
func (CancelRequested) event()    {}
func (CacheOverrideSet) event()   {}
func (ToolsAllowed) event()       {}
func (TaskStarted) event()        {}
func (MemoryRecalled) event()     {}
func (VerifyStarted) event()      {}
func (VerifyFinished) event()     {}
func (MemoryStored) event()       {}
func (TaskFinished) event()       {}
func (StateChanged) event()       {}
func (Warning) event()            {}
func (RunFailed) event()          {}
func (TurnFinished) event()       {}
func (SessionClosed) event()      {}
func (SessionDeleted) event()     {}
func (Refused) event()            {}
