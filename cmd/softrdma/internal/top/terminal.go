package top

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"softrdma/internal/sampler"
)

// A terminal connects the model with a terminal: bubbletea reads keys and draws what has changed.
type terminal struct {
	model
	ctx      context.Context
	interval time.Duration
	programs *sampler.Sampler
}

// runTerminal shows the view until the user ends it.
func runTerminal(ctx context.Context, in io.Reader, out io.Writer, m model, interval time.Duration) error {
	p := tea.NewProgram(terminal{m, ctx, interval, new(sampler.Sampler)}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	_, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil // by a signal
	}
	return err
}

// usable reports whether a terminal of a kind can move its cursor.
func usable() bool {
	kind := os.Getenv("TERM")
	return kind != "dumb" && (kind != "" || os.PathSeparator == '\\')
}

type (
	sampleMsg struct{ *sample }
	timeMsg   struct{}
	recordMsg struct {
		of    target
		lines []string
		err   error
	}
)

// Init implements tea.Model.
func (t terminal) Init() tea.Cmd { return t.take }

func (t terminal) take() tea.Msg { return sampleMsg{t.programs.Take(t.ctx, timeLimit(t.interval))} }

// look asks for the flight recorder's lines of the open queue pair.
func (t terminal) look() tea.Cmd {
	if t.open == nil || t.paused {
		return nil
	}
	of := *t.open
	return func() tea.Msg {
		lines, err := sampler.Record(t.ctx, of)
		return recordMsg{of, lines, err}
	}
}

// Update implements tea.Model.
func (t terminal) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		t.width, t.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		m, w := t.key(msg.String())
		t.model = m
		switch w {
		case quit:
			return t, tea.Quit
		case look:
			return t, t.look()
		}
	case sampleMsg:
		first := t.last == nil
		t.model = t.sampled(msg.sample)
		wait := t.interval
		if first { // rates need a second sample
			wait = min(wait, time.Second/4)
		}
		return t, tea.Batch(t.look(), tea.Tick(wait, func(time.Time) tea.Msg { return timeMsg{} }))
	case timeMsg:
		return t, t.take
	case recordMsg:
		t.model = t.recorded(msg.of, msg.lines, msg.err)
	}
	return t, nil
}

// View implements tea.Model.
func (t terminal) View() tea.View {
	v := tea.NewView(strings.Join(t.view(), "\n"))
	v.AltScreen = true
	return v
}

// timeLimit is how long programs have to answer.
func timeLimit(interval time.Duration) time.Duration {
	return min(max(interval, time.Second), 5*time.Second)
}
