package gateway

import "github.com/turnlog/turnlog/gateway/internal/people"

// Person is an entry of the file of people.
type Person struct {
	Name   string
	Role   string   // one of Roles
	Agents []string // patterns of the names of agents that the role is about; none: all
}

// Entry returns the lines about a person with a token.
func (p Person) Entry(token string) (string, error) {
	return people.Entry(people.Person{Name: p.Name, Role: people.Role(p.Role), Token: people.Hash(token), Agents: p.Agents})
}

// Roles returns the names of the roles, the most powerful one last.
func Roles() (names []string) {
	for _, r := range people.Roles() {
		names = append(names, string(r))
	}
	return names
}

// NewToken returns a token that cannot be guessed.
func NewToken() string { return people.NewToken() }
