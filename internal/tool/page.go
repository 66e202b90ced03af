package tool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Bounds of the text of a page, in bytes.
const (
	maxLink = 500            // of the URL of a link, to be shown
	maxPage = 2 * fetchBytes // of text: a link may be written with a few bytes and shown with maxLink
)

// unordered takes the place of a number for a list whose items have none.
const unordered = math.MinInt

// page converts HTML to text with Markdown marks, tag by tag. It builds no tree, so deep nesting
// is not a problem.
type page struct {
	base    *url.URL
	xml     bool // any element may close itself
	rebased bool
	out     bytes.Buffer
	title   string
	skip    []atom.Atom // open elements whose content is hidden
	pre     int         // number of open elements that preserve white space
	lists   []int       // open lists: the number of the last item, or unordered
	link    string      // target of the open link; empty: none is open
	linkAt  int         // where the link's text begins
	before  int         // markEnd before the link
	markEnd int         // end of the last mark; the marked text continues on the same line
	inTitle bool
	space   bool // white space is due before the next word
}

// pageText returns the title and the text of a page, which may be in XHTML. whole is false if the
// text exceeds maxPage bytes.
func pageText(r io.Reader, base *url.URL, xml bool) (title, text string, whole bool, err error) {
	p := page{base: base, xml: xml, markEnd: -1}
	tokens := html.NewTokenizer(r)
	tokens.AllowCDATA(xml)
	for p.out.Len() <= maxPage {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				return "", "", false, fmt.Errorf("reading HTML: %w", err)
			}
			return p.title, strings.TrimSpace(p.out.String()), true, nil
		}
		token := tokens.Token()
		switch kind {
		case html.TextToken:
			p.text(token.Data)
		case html.StartTagToken:
			p.start(token)
		case html.SelfClosingTagToken:
			p.closed(tokens, token)
		case html.EndTagToken:
			p.end(token.DataAtom)
		}
	}
	out := p.out.Bytes()[:maxPage]
	return p.title, string(bytes.TrimSpace(out[:maxPage-excerpt.Unfinished(out)])), false, nil
}

// isHidden reports whether the content of an element is not shown.
func isHidden(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Select:
		return true
	}
	return false
}

// block reports whether an element is on lines of its own, and whether empty lines surround it.
func block(a atom.Atom) (own, apart bool) {
	switch a {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Pre, atom.Blockquote, atom.Table,
		atom.Section, atom.Article, atom.Header, atom.Footer, atom.Main, atom.Nav, atom.Aside, atom.Figure, atom.Dl, atom.Hr:
		return true, true
	case atom.Div, atom.Tr, atom.Dt, atom.Dd, atom.Form, atom.Fieldset, atom.Figcaption, atom.Caption, atom.Address,
		atom.Li, atom.Ul, atom.Ol, atom.Details, atom.Summary, atom.Option, atom.Title, atom.Body:
		return true, false
	}
	return false, false
}

func (p *page) start(t html.Token) {
	a := t.DataAtom
	if isHidden(a) {
		p.skip = append(p.skip, a)
	}
	if len(p.skip) > 0 {
		return
	}
	if p.out.Len() != p.markEnd {
		p.breakBlock(a)
	}
	switch a {
	case atom.Base:
		p.rebase(attribute(t, "href"))
	case atom.Title:
		p.inTitle = p.title == ""
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		p.mark(strings.Repeat("#", int(t.Data[1]-'0')) + " ")
	case atom.Ul, atom.Menu:
		p.lists = append(p.lists, unordered)
	case atom.Ol:
		p.lists = append(p.lists, number(t, "start", 1)-1)
	case atom.Li:
		p.item(t)
	case atom.Br:
		p.newline()
	case atom.Hr:
		p.out.WriteString("---\n")
	case atom.Pre:
		p.mark("```\n")
		p.pre++
	case atom.Blockquote:
		p.mark("> ")
	case atom.Td, atom.Th:
		p.space = true
		p.mark("| ")
	case atom.A:
		p.openLink(t)
	case atom.Img:
		if alt := attribute(t, "alt"); alt != "" {
			p.text("[image: " + alt + "]")
		}
	}
}

// closed handles an element that closes itself. In HTML, scripts and styles do not: their content
// follows. For some others the tokenizer would take the rest of the page for their content.
func (p *page) closed(tokens *html.Tokenizer, t html.Token) {
	a := t.DataAtom
	if !p.xml && len(p.skip) == 0 && (a == atom.Script || a == atom.Style) {
		p.start(t)
		return
	}
	tokens.NextIsNotRawText()
	if isHidden(a) {
		return
	}
	p.start(t)
	if p.xml || a == atom.Title {
		p.end(a)
	}
}

func (p *page) end(a atom.Atom) {
	if len(p.skip) > 0 {
		p.skip = p.skip[:len(p.skip)-p.ended(a)]
		return
	}
	switch a {
	case atom.Title:
		p.inTitle = false
	case atom.Ul, atom.Menu, atom.Ol:
		p.lists = p.lists[:max(0, len(p.lists)-1)]
	case atom.Pre:
		if p.pre > 0 {
			p.pre--
			p.newline()
			p.out.WriteString("```")
		}
	case atom.A:
		p.closeLink()
	}
	p.breakBlock(a)
}

// ended returns how many of the hidden elements the end of one ends: what is open inside it too.
func (p *page) ended(a atom.Atom) int {
	const most = 100 // a page may have any number of them
	for n, open := range slices.Backward(p.skip[max(0, len(p.skip)-most):]) {
		if open == a {
			return min(most, len(p.skip)) - n
		}
	}
	return 0
}

// breakBlock ends the line at the beginning or end of a block element.
func (p *page) breakBlock(a atom.Atom) {
	own, apart := block(a)
	if own {
		p.newline()
	}
	if apart && p.out.Len() > 0 && !bytes.HasSuffix(p.out.Bytes(), []byte("\n\n")) {
		p.out.WriteByte('\n')
	}
}

// newline ends the line, unless it is empty.
func (p *page) newline() {
	p.space = false
	if n := p.out.Len(); n > 0 && p.out.Bytes()[n-1] != '\n' {
		p.out.WriteByte('\n')
	}
}

// mark writes a mark that is not text of the page.
func (p *page) mark(s string) {
	p.separate()
	p.out.WriteString(s)
	p.markEnd = p.out.Len()
}

// separate writes the white space that is due, unless a line begins here.
func (p *page) separate() {
	if n := p.out.Len(); p.space && n > 0 && !unicode.IsSpace(rune(p.out.Bytes()[n-1])) {
		p.out.WriteByte(' ')
	}
	p.space = false
}

// item begins an item of the innermost list.
func (p *page) item(t html.Token) {
	depth := len(p.lists)
	if depth == 0 {
		p.mark("- ")
		return
	}
	// Beyond a few levels, more indentation does not help.
	p.out.WriteString(strings.Repeat("  ", min(depth-1, 8)))
	if last := &p.lists[depth-1]; *last != unordered {
		*last = number(t, "value", *last+1)
		p.mark(strconv.Itoa(*last) + ". ")
		return
	}
	p.mark("- ")
}

// text writes text of the page and collapses white space.
func (p *page) text(s string) {
	switch {
	case len(p.skip) > 0:
	case p.inTitle:
		p.title = strings.Join(strings.Fields(s), " ")
	case p.pre > 0:
		p.out.WriteString(s)
	default:
		for i, word := range strings.Fields(s) {
			first, _ := utf8.DecodeRuneInString(s)
			p.space = p.space || i > 0 || unicode.IsSpace(first)
			p.separate()
			p.out.WriteString(word)
		}
		last, _ := utf8.DecodeLastRuneInString(s)
		p.space = p.space || unicode.IsSpace(last)
	}
}

// rebase sets the base URL of links. Only the first one of a page counts. A base that is too long
// is ignored, because it would be repeated in each link.
func (p *page) rebase(href string) {
	if href == "" || p.rebased {
		return
	}
	p.rebased = true
	if base, err := p.base.Parse(href); err == nil && len(base.String()) <= maxLink {
		p.base = base
	}
}

// openLink begins a link to another page.
func (p *page) openLink(t html.Token) {
	p.closeLink()
	to := strings.TrimSpace(attribute(t, "href"))
	if to == "" || strings.HasPrefix(to, "#") {
		return
	}
	u, err := p.base.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return
	}
	if p.link = u.String(); len(p.link) > maxLink {
		p.link = ""
		return
	}
	p.before = p.markEnd
	p.mark("[")
	p.linkAt = p.out.Len()
}

// closeLink ends the open link. A link without text is removed.
func (p *page) closeLink() {
	if p.link == "" {
		return
	}
	if text := p.out.Bytes()[p.linkAt:]; len(bytes.TrimSpace(text)) == 0 {
		p.out.Truncate(p.linkAt - 1)
		p.markEnd = p.before
	} else {
		p.out.WriteString("](" + p.link + ")")
	}
	p.link = ""
}

// number returns an attribute that is a whole number; the fallback if it is none.
func number(t html.Token, name string, fallback int) int {
	if n, err := strconv.Atoi(strings.TrimSpace(attribute(t, name))); err == nil {
		return n
	}
	return fallback
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
