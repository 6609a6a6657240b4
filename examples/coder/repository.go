package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed testdata/shop
var shop embed.FS

// sampleGoal describes the bug in the module in testdata/shop.
const sampleGoal = "Ten pieces of an article get no discount. Make them get it."

// sample copies the module in testdata/shop to a new repository.
func sample(ctx context.Context) (root string, err error) {
	if root, err = os.MkdirTemp("", "coder"); err != nil {
		return "", fmt.Errorf("make a directory: %w", err)
	}
	files, err := fs.Sub(shop, "testdata/shop")
	if err != nil {
		return "", fmt.Errorf("find the sample: %w", err)
	}
	if err := os.CopyFS(root, files); err != nil {
		return "", fmt.Errorf("copy the sample: %w", err)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module shop\n\ngo 1.26\n"), 0o600); err != nil {
		return "", fmt.Errorf("copy the sample: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=coder", "-c", "user.email=coder@localhost", "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message=A shop"},
	} {
		if out, err := git(ctx, root, args...); err != nil {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return root, nil
}

// baseline returns the current commit of the repository, or "" if there is none.
func baseline(ctx context.Context, root string) string {
	out, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "HEAD")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// diff returns the changes of the files since the commit, including new files. It includes
// uncommitted changes from before: commit first to see only the agent's work.
func diff(ctx context.Context, root, since string, files []string) string {
	if since == "" {
		return "no diff: there is no commit to compare with\n"
	}
	var all strings.Builder
	for _, file := range files {
		args := []string{"diff", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/"}
		if untracked, err := git(ctx, root, "ls-files", "--others", "--", file); err == nil && len(untracked) > 0 {
			args = append(args, "--no-index", "--", os.DevNull, file)
		} else {
			args = append(args, since, "--", file)
		}
		out, _ := git(ctx, root, args...) // the exit status says that there is a difference, and the output shows it
		all.Write(out)
	}
	return printable(all.String())
}

// git runs git in a directory, ignoring the environment's repository.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}
