package browser

import "testing"

// TestAnActionWhoseAnswerIsLostMayHaveBeenDone fails when the user is told to try again at once what the server has done: readers of the
// destination would get it twice.
func TestAnActionWhoseAnswerIsLostMayHaveBeenDone(t *testing.T) {
	s, b := at(t), newTab(t)
	b.signIn(s.url+"/ns/"+s.a.namespace+"/health", s.a.token)
	b.shows("Providers")
	eval[bool](b, `((fetched) => {
		fetch = (url, options) => { fetch = fetched; return fetched(url, options).then(() => { throw new TypeError("connection lost"); }); };
		return true;
	})(fetch)`)
	b.click("button[popovertarget=test-0]")
	b.click("#test-0 button[type=submit]")
	b.shows("It may have been done")
	b.hides("Try again in a moment")
}
