// Package settings takes the flags of programs from the environment and from a file.
//
// Every setting is a flag. The command line overrides the environment, which overrides the file, which overrides the
// default. So each flag has one name, one meaning and one check.
//
// Every flag of every command is also an environment variable: --log-level is TURNLOG_LOG_LEVEL, or the variable that the
// help of the flag names in brackets. Programs that run until they are stopped also read the file that --config names, see
// [File]. Flags that exclude each other are one setting: the first source that has one of them decides.
//
// The package does not know the programs. They call [Lasts] and [Register], and their tests keep the list of [Programs] up
// to date.
package settings
