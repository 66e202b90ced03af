package tool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// readDocument returns the text of a response, or says that it has none. Text that is too long for
// a result is saved in the workspace.
func (t webFetchTool) readDocument(ctx context.Context, resp *http.Response, call Call) (string, error) {
	data, err := io.ReadAll(io.LimitReader(resp.Body, fetchBytes+1))
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	whole := len(data) <= fetchBytes
	if !whole {
		data = data[:fetchBytes]
		data = data[:len(data)-excerpt.Unfinished(data)]
	}
	declared := resp.Header.Get("Content-Type")
	if declared == "" {
		// It names an encoding too, without having looked at more than the first bytes.
		declared, _, _ = strings.Cut(http.DetectContentType(data), ";")
	}
	kind := mediaType(declared)
	if !isText(kind) || bytes.IndexByte(data[:min(len(data), binarySniffBytes)], 0) >= 0 && !isUTF16(data, declared) {
		return fmt.Sprintf("%s is of the type %s, which has no text that could be shown.", shownURL(resp.Request.URL), displayPath(excerpt.Short(kind, maxError))), nil
	}
	// Conversion takes several times the size of the document, and does not wait for its server.
	select {
	case t.conversions <- struct{}{}:
		defer func() { <-t.conversions }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	decoded, err := decode(data, declared)
	if err != nil {
		return "", err
	}
	cut := ""
	if !whole {
		cut = fmt.Sprintf("only the first %d bytes of the document were loaded", fetchBytes)
	}
	var title string
	text := string(decoded)
	if xml := kind == "application/xhtml+xml"; xml || kind == "text/html" {
		if title, text, whole, err = pageText(bytes.NewReader(decoded), resp.Request.URL, xml); err != nil {
			return "", err
		}
		if !whole {
			cut = fmt.Sprintf("only the first %d bytes of the document's text are here", maxPage)
		}
	}
	return fetchResult(call, shownURL(resp.Request.URL), title, text, cut), nil
}

// mediaType returns the media type that a response declares. Like a browser, it does not mind broken
// parameters.
func mediaType(declared string) string {
	declared, _, _ = strings.Cut(declared, ";")
	kind, _, err := mime.ParseMediaType(declared)
	if err != nil {
		return "application/octet-stream"
	}
	return kind
}

// isUTF16 reports whether a text is in UTF-16, whose characters mostly contain a NUL byte.
func isUTF16(data []byte, declared string) bool {
	_, name, _ := charset.DetermineEncoding(data, declared)
	return strings.HasPrefix(name, "utf-16")
}

// isText reports whether a media type is a text format.
func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml",
		"application/x-yaml", "application/toml", "application/x-sh", "application/sql":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml")
}

// xmlDeclaration is the beginning of an XML document that declares its encoding.
var xmlDeclaration = regexp.MustCompile(`^<\?xml(?:\s[^>]*)?\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// decode converts text to UTF-8. Valid UTF-8 stays unchanged, unless the response declares another
// encoding, or the page itself the one that consists of ASCII bytes only.
func decode(data []byte, declared string) ([]byte, error) {
	encoding, name, certain := charset.DetermineEncoding(data, declared)
	if xml := xmlDeclaration.FindSubmatch(data); xml != nil && !certain {
		// What could be read up to here is not in UTF-16, whatever it says.
		if own, label := charset.Lookup(string(xml[1])); own != nil && !strings.HasPrefix(label, "utf-16") {
			encoding, name = own, label
		}
	}
	if name != "utf-8" && (certain || name == "iso-2022-jp" || !utf8.Valid(data)) {
		decoded, err := encoding.NewDecoder().Bytes(data)
		if err != nil {
			return nil, fmt.Errorf("decoding %s: %w", name, err)
		}
		data = decoded
	}
	return bytes.TrimPrefix(data, []byte(byteOrderMark)), nil
}

// fetchResult builds the result: the URL, and as much of the text as fits. cut says what is
// missing from the document; empty if it is complete.
func fetchResult(call Call, from, title, text, cut string) string {
	head := from + "\n"
	if title != "" {
		head += "Title: " + excerpt.Head(call.clean(title), maxError) + "\n"
	}
	text = strings.Trim(call.clean(text), "\r\n")
	if strings.TrimSpace(text) == "" {
		return head + "\nThe document has no text."
	}
	note := ""
	if cut != "" {
		note = "\n[cut: " + cut + "]"
	}
	return head + "\n" + call.Workspace.Excerpt(WebFetchTool, text, maxOutput-len(head)-len(note)-1) + note
}
