package policy

import "testing"

func TestDimension_A16_KnowsWhatCarriesCredentials(t *testing.T) {
	t.Parallel()
	for word, want := range map[Per]bool{
		"header:Authorization": true, "header:authorization": true, "header:X-Api-Key": true, "header:X-ApiKey": true, "header:X-Auth-Token": true, "header:X-Amz-Security-Token": true,
		"header:X-Client-Secret": true, "header:X-Goog-Authkey": true, "body:password": true, "body:user.Password": true, "body:new_password": true, "body:otp": true, "body:refreshToken": true, "body:login.pin": true,
		"body:api_key": true, "tenant": false, "credential": false, "user": false, "ip": false, "header:X-Client": false, "header:X-User-Id": false, "body:username": false, "body:email": false,
		"body:shipping": false, "body:password.hint": false, "body:option": false, "header:X-Tokenizer-Id": false, "header:Accept-Encoding": false,
	} {
		if got := word.Dimensions()[0].Secret(); got != want {
			t.Errorf("%s: %v", word, got)
		}
	}
}
