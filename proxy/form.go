package proxy

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
)

// formError says why a multipart form cannot be read.
type formError struct{ err error }

// Error returns a sentence for the client.
func (e *formError) Error() string { return "the multipart form cannot be read: " + e.err.Error() }

// Unwrap returns the cause.
func (e *formError) Unwrap() error { return e.err }

// formModel returns the field model of a multipart form; empty when it has none. The
// last one counts.
func formModel(contentType string, body []byte) (string, error) {
	name := ""
	err := eachPart(contentType, body, func(p *multipart.Part) error {
		if p.FormName() != "model" {
			return nil
		}
		value, err := io.ReadAll(io.LimitReader(p, longestName))
		name = string(value)
		return err
	})
	return name, err
}

// setFormModel returns the form with another value in its field model; with an empty
// name, or without such a field, the form as it is. All else is copied byte for byte.
func setFormModel(contentType string, body []byte, name string) ([]byte, error) {
	if name == "" {
		return body, nil
	}
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, &formError{err}
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(params["boundary"]); err != nil {
		return nil, &formError{err}
	}
	err = eachPart(contentType, body, func(p *multipart.Part) error {
		to, err := w.CreatePart(p.Header)
		if err != nil {
			return err
		}
		if p.FormName() == "model" {
			_, err = io.WriteString(to, name)
		} else {
			_, err = io.Copy(to, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, &formError{err}
	}
	return out.Bytes(), nil
}

// eachPart calls f for each part of a multipart form, undecoded.
func eachPart(contentType string, body []byte, f func(*multipart.Part) error) error {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return &formError{err}
	}
	if params["boundary"] == "" {
		return &formError{errors.New("its Content-Type has no boundary")}
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f(p)
		}
		if err != nil {
			return &formError{err}
		}
	}
}
