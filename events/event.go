package events

// Event is a fact about a session, in the past tense. It is sealed: only the structs
// of this package are events.
//
//sumtype:decl
type Event interface {
	event() Kind
}

func (DriverClaimed) event() Kind      { return KindDriverClaimed }
func (Parked) event() Kind             { return KindParked }
func (SnapshotTaken) event() Kind      { return KindSnapshotTaken }
func (CommandSigned) event() Kind      { return KindCommandSigned }
func (RunStarted) event() Kind         { return KindRunStarted }
func (ConfigChanged) event() Kind      { return KindConfigChanged }
func (ModelSwitched) event() Kind      { return KindModelSwitched }
func (PolicyApplied) event() Kind      { return KindPolicyApplied }
func (InputQueued) event() Kind        { return KindInputQueued }
func (InputAccepted) event() Kind      { return KindInputAccepted }
func (TurnStarted) event() Kind        { return KindTurnStarted }
func (RoundStarted) event() Kind       { return KindRoundStarted }
func (RoundFinished) event() Kind      { return KindRoundFinished }
func (ModelCallStarted) event() Kind   { return KindModelCallStarted }
func (ModelCallFailed) event() Kind    { return KindModelCallFailed }
func (ContentDelta) event() Kind       { return KindContentDelta }
func (ContentRepeated) event() Kind    { return KindContentRepeated }
func (ReplyRecorded) event() Kind      { return KindReplyRecorded }
func (UsageUpdated) event() Kind       { return KindUsageUpdated }
func (ToolCallRequested) event() Kind  { return KindToolCallRequested }
func (ToolCatalogChanged) event() Kind { return KindToolCatalogChanged }
func (ApprovalRequired) event() Kind   { return KindApprovalRequired }
func (ApprovalResolved) event() Kind   { return KindApprovalResolved }
func (ToolDispatched) event() Kind     { return KindToolDispatched }
func (ToolAttemptLost) event() Kind    { return KindToolAttemptLost }
func (DeadLetterSettled) event() Kind  { return KindDeadLetterSettled }
func (ToolDetached) event() Kind       { return KindToolDetached }
func (ToolProgress) event() Kind       { return KindToolProgress }
func (ToolResultReceived) event() Kind { return KindToolResultReceived }
func (HookDecided) event() Kind        { return KindHookDecided }
func (MutationStarted) event() Kind    { return KindMutationStarted }
func (MutationFinished) event() Kind   { return KindMutationFinished }
func (LimitReached) event() Kind       { return KindLimitReached }
func (CancelRequested) event() Kind    { return KindCancelRequested }
func (CacheOverrideSet) event() Kind   { return KindCacheOverrideSet }
func (ToolsAllowed) event() Kind       { return KindToolsAllowed }
func (TaskStarted) event() Kind        { return KindTaskStarted }
func (MemoryRecalled) event() Kind     { return KindMemoryRecalled }
func (VerifyStarted) event() Kind      { return KindVerifyStarted }
func (VerifyFinished) event() Kind     { return KindVerifyFinished }
func (MemoryStored) event() Kind       { return KindMemoryStored }
func (TaskFinished) event() Kind       { return KindTaskFinished }
func (StateChanged) event() Kind       { return KindStateChanged }
func (Warning) event() Kind            { return KindWarning }
func (RunFailed) event() Kind          { return KindRunFailed }
func (TurnFinished) event() Kind       { return KindTurnFinished }
func (SessionClosed) event() Kind      { return KindSessionClosed }
func (SessionDeleted) event() Kind     { return KindSessionDeleted }
func (Refused) event() Kind            { return KindRefused }
