// Prints Dockerfiles as BuildKit reads them, as JSON: one list of stages for each, and what its checks warn of.
//
// tools.sh builds it against BuildKit's own parser, at the version that docker compose uses; the tests of the images
// read what it prints.
//
//	dockerfile FILE...
//	dockerfile -context DIRECTORY <PATHS    which of the paths (one a line) .dockerignore lets into the build context
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

type instruction struct {
	Name string `json:"name"`
	// As written, with continued lines joined.
	Text string `json:"text"`
	Line int    `json:"line"`
	// As BuildKit understands it.
	Parsed any `json:"parsed"`
}

type stage struct {
	Name         string        `json:"name"`
	Base         string        `json:"base"`
	Instructions []instruction `json:"instructions"`
}

type file struct {
	Path      string            `json:"path"`
	Arguments map[string]string `json:"arguments"`
	Stages    []stage           `json:"stages"`
	Warnings  []string          `json:"warnings"`
}

func read(path string) (file, error) {
	result := file{Path: path, Arguments: map[string]string{}, Stages: []stage{}, Warnings: []string{}}
	source, err := os.Open(path)
	if err != nil {
		return result, err
	}
	defer source.Close()
	parsed, err := parser.Parse(source)
	if err != nil {
		return result, err
	}
	for _, warning := range parsed.Warnings {
		result.warn(warning.Short, warning.Location)
	}
	checks := linter.New(&linter.Config{
		Warn: func(rule, _, _, message string, location []parser.Range) {
			var first *parser.Range
			if len(location) > 0 {
				first = &location[0]
			}
			result.warn(rule+": "+message, first)
		},
	})
	stages, arguments, err := instructions.Parse(parsed.AST, checks)
	if err != nil {
		return result, err
	}
	for _, command := range arguments {
		for _, argument := range command.Args {
			result.Arguments[argument.Key] = argument.ValueString()
		}
	}
	for _, found := range stages {
		one := stage{Name: found.Name, Base: found.BaseName, Instructions: []instruction{}}
		for _, command := range found.Commands {
			text, _ := command.(fmt.Stringer)
			line := 0
			if where := command.Location(); len(where) > 0 {
				line = where[0].Start.Line
			}
			one.Instructions = append(one.Instructions, instruction{command.Name(), fmt.Sprint(text), line, command})
		}
		result.Stages = append(result.Stages, one)
	}
	return result, nil
}

func (result *file) warn(message string, location *parser.Range) {
	line := 0
	if location != nil {
		line = location.Start.Line
	}
	result.Warnings = append(result.Warnings, fmt.Sprintf("line %d: %s", line, message))
}

func readAll(paths []string) ([]file, error) {
	files := []file{}
	for _, path := range paths {
		result, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, result)
	}
	return files, nil
}

// admitted gives those of the paths on standard input that are in the build context.
func admitted(directory string) ([]string, error) {
	source, err := os.Open(filepath.Join(directory, ".dockerignore"))
	if err != nil {
		return nil, err
	}
	defer source.Close()
	patterns, err := ignorefile.ReadAll(source)
	if err != nil {
		return nil, err
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, err
	}
	paths := []string{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		ignored, err := matcher.MatchesOrParentMatches(lines.Text())
		if err != nil {
			return nil, err
		}
		if !ignored {
			paths = append(paths, lines.Text())
		}
	}
	return paths, lines.Err()
}

func main() {
	var result any
	var err error
	if arguments := os.Args[1:]; len(arguments) == 2 && arguments[0] == "-context" {
		result, err = admitted(arguments[1])
	} else {
		result, err = readAll(arguments)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
