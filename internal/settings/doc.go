// Package settings takes the flags of programs from the environment and from a file.
//
// The one idea: a setting is a flag, whichever way it comes. The command line overrides the environment, which
// overrides the file, which overrides the default. So each flag has one name, one meaning and one check.
//
// It is about programs that run until they are stopped. Each of their flags is also an environment variable: --log-level
// is TURNLOG_LOG_LEVEL, or the variable that the help of the flag names in brackets. They read the file that --config
// names, see [File]. Commands that people type keep to the command line, since flags like --force are not settings.
//
// The package does not know the programs. They call [Lasts] and [Register], and their tests keep what [Programs] lists up to date.
package settings
