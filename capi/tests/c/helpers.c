/* The helper functions, without an initialised library: nothing is lost, nothing is freed twice (run it under valgrind or
 * with -fsanitize=address), and nonsense gets an error. */
#include "check.h"
#include "since.h"

static void values(void) {
    pmix_value_t v, w;
    void *out;
    size_t size;

    uint32_t number = 7, copy = 0;
    OK(PMIx_Value_load(&v, &number, PMIX_UINT32));
    out = &copy;
    OK(PMIx_Value_unload(&v, &out, &size));
    CHECK(copy == 7 && size == 4 && out == &copy);
    out = NULL;
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_unload(&v, &out, &size));

    OK(PMIx_Value_load(&v, "text", PMIX_STRING));
    OK(PMIx_Value_xfer(&w, &v));
    CHECK(w.data.string != v.data.string && !strcmp(w.data.string, "text"));
    OK(PMIx_Value_unload(&w, &out, &size));
    CHECK(size == 4 && out != w.data.string && !strcmp(out, "text"));
    free(out);
    CHECK(PMIx_Value_compare(&v, &w) == 0);
    PMIx_Value_destruct(&v);
    PMIx_Value_destruct(&w);
    CHECK(v.type == PMIX_UNDEF);

    OK(PMIx_Value_load(&v, NULL, PMIX_STRING));
    CHECK(v.type == PMIX_STRING && v.data.string == NULL);
    PMIx_Value_destruct(&v);
    OK(PMIx_Value_load(&v, NULL, PMIX_BOOL));
    CHECK(v.data.flag && PMIx_Value_true(&v) == 0);
    OK(PMIx_Value_load(&v, NULL, PMIX_PROC));
    OK(PMIx_Value_xfer(&w, &v));
    PMIx_Value_destruct(&w);

    pmix_byte_object_t bo = {"\0\1\2", 3};
    OK(PMIx_Value_load(&v, &bo, PMIX_BYTE_OBJECT));
    OK(PMIx_Value_unload(&v, &out, &size));
    CHECK(size == 3 && !memcmp(out, "\0\1\2", 3) && v.data.bo.bytes != out && v.data.bo.bytes != bo.bytes);
    free(out);
    PMIx_Value_destruct(&v);

    pmix_proc_t proc, other;
    PMIx_Proc_load(&proc, "job@1", 3);
    OK(PMIx_Value_load(&v, &proc, PMIX_PROC));
    out = &other;
    OK(PMIx_Value_unload(&v, &out, &size));
    CHECK(out == &other && size == sizeof proc && PMIx_Check_procid(&proc, &other));
    PMIx_Value_destruct(&v);

    OK(PMIx_Value_load(&v, "job@2", PMIX_PROC_NSPACE));
    CHECK(!strcmp(*v.data.nspace, "job@2"));
    PMIx_Value_destruct(&v);

    OK(PMIx_Value_load(&v, "pmix[a,b]", PMIX_REGEX));
    CHECK(v.data.bo.size == strlen("pmix[a,b]") + 1);
    PMIx_Value_destruct(&v);

    pmix_envar_t envar = {"PATH", "/bin", ':'};
    OK(PMIx_Value_load(&v, &envar, PMIX_ENVAR));
    OK(PMIx_Value_xfer(&w, &v));
    CHECK(!strcmp(w.data.envar.value, "/bin") && w.data.envar.separator == ':');
    PMIx_Value_destruct(&v);
    PMIx_Value_destruct(&w);

    OK(PMIx_Value_load(&v, &number, PMIX_POINTER));
    CHECK(v.data.ptr == &number);
    PMIx_Value_destruct(&v);

    pmix_geometry_t geometry;
    PMIx_Geometry_construct(&geometry);
    geometry.uuid = strdup("fab://0");
    geometry.coordinates = PMIx_Coord_create(3, 2);
    geometry.ncoords = 2;
    geometry.coordinates[1].coord[2] = 9;
    OK(PMIx_Value_load(&v, &geometry, PMIX_GEOMETRY));
    PMIx_Geometry_destruct(&geometry);
    CHECK(v.data.geometry->coordinates[1].coord[2] == 9);
    PMIx_Value_destruct(&v);

    int64_t wide = 0;
    number = 70000;
    OK(PMIx_Value_load(&v, &number, PMIX_UINT32));
    OK(PMIx_Value_get_number(&v, &wide, 10));
    CHECK(wide == 70000);
    CHECK(PMIx_Value_get_number(&v, &wide, PMIX_UINT16) != PMIX_SUCCESS);
    char *text = PMIx_Value_string(&v);
    CHECK(strstr(text, "70000"));
    free(text);
    OK(PMIx_Value_get_size(&v, &size));
    CHECK(size == sizeof v + 4);
}

static void arrays(void) {
    pmix_value_t v, w;
    pmix_data_array_t *outer = PMIx_Data_array_create(2, PMIX_INFO), *inner = PMIx_Data_array_create(3, PMIX_STRING);
    pmix_info_t *info = outer->array;
    ((char **)inner->array)[1] = strdup("b");
    OK(PMIx_Info_load(&info[0], "list", inner, PMIX_DATA_ARRAY));
    uint16_t rank = 4;
    OK(PMIx_Info_load(&info[1], "pmix.lrank", &rank, PMIX_UINT16));
    OK(PMIx_Value_load(&v, outer, PMIX_DATA_ARRAY));
    PMIx_Data_array_free(outer);
    PMIx_Data_array_free(inner);
    OK(PMIx_Value_xfer(&w, &v));
    PMIx_Value_destruct(&v);
    info = w.data.darray->array;
    CHECK(w.data.darray->size == 2 && w.data.darray->type == PMIX_INFO && info[1].value.data.uint16 == 4);
    inner = info[0].value.data.darray;
    CHECK(((char **)inner->array)[0] == NULL && !strcmp(((char **)inner->array)[1], "b"));
    char *text = PMIx_Value_string(&w);
    CHECK(text != NULL);
    free(text);
    PMIx_Value_destruct(&w);

    /* Objects that a program built with older macros makes without asking the library. */
    v.type = PMIX_DATA_ARRAY;
    v.data.darray = malloc(sizeof *v.data.darray);
    *v.data.darray = (pmix_data_array_t){PMIX_PROC, 2, calloc(2, sizeof(pmix_proc_t))};
    PMIx_Value_destruct(&v);

    pmix_app_t *app = PMIx_App_create(1);
    app->cmd = strdup("a.out");
    OK(PMIx_Argv_append_nosize(&app->argv, "a.out"));
    PMIx_App_info_create(app, 1);
    OK(PMIx_Info_load(app->info, "pmix.wdir", "/", PMIX_STRING));
    pmix_app_t *copy;
    OK(PMIx_Data_copy((void **)&copy, app, PMIX_APP));
    PMIx_App_free(app, 1);
    CHECK(!strcmp(copy->argv[0], "a.out") && copy->argv[1] == NULL && !strcmp(copy->info->value.data.string, "/"));
    PMIx_App_free(copy, 1);

    char *printed, *string;
    int number = -3;
    OK(PMIx_Data_print(&printed, ">", &number, PMIX_INT));
    CHECK(printed[0] == '>' && strstr(printed, "-3"));
    free(printed);
    OK(PMIx_Data_copy((void **)&string, "text", PMIX_STRING));
    CHECK(!strcmp(string, "text"));
    free(string);
}

static void infos(void) {
    pmix_info_t *info = PMIx_Info_create(2), copy;
    CHECK(info[0].flags == 0 && info[1].flags == 0 && info[0].value.type == PMIX_UNDEF);
    CHECK(PMIx_Info_true(&info[0]) == 0);
    OK(PMIx_Info_load(&info[0], "pmix.timeout", &(int){5}, PMIX_INT));
    PMIx_Info_required(&info[0]);
    OK(PMIx_Info_xfer(&copy, &info[0]));
    CHECK(PMIx_Info_is_required(&copy) && copy.value.data.integer == 5 && !strcmp(copy.key, "pmix.timeout"));
    char *text = PMIx_Info_string(&copy);
    CHECK(strstr(text, "pmix.timeout") && text[strlen(text) - 1] == '\n');
    free(text);

    char *mine = strdup("mine");
    info[1].value.type = PMIX_STRING;
    info[1].value.data.string = mine;
    PMIx_Info_persistent(&info[1]);
    PMIx_Info_free(info, 2);
    CHECK(!strcmp(mine, "mine"));
    free(mine);

    void *list = PMIx_Info_list_start(), *next;
    pmix_data_array_t array;
    IS(PMIX_ERR_EMPTY, PMIx_Info_list_convert(list, &array));
    OK(PMIx_Info_list_add(list, "b", "old", PMIX_STRING));
    OK(PMIx_Info_list_add_unique(list, "b", "kept out", PMIX_STRING, false));
    OK(PMIx_Info_list_add_unique(list, "b", "new", PMIX_STRING, true));
    OK(PMIx_Info_list_prepend(list, "a", NULL, PMIX_BOOL));
    pmix_info_t own;
    OK(PMIx_Info_load(&own, "c", "own", PMIX_STRING));
    OK(PMIx_Info_list_insert(list, &own));
    OK(PMIx_Info_list_xfer(list, &own));
    CHECK(PMIx_Info_list_get_size(list) == 4);
    size_t seen = 0;
    void *at = NULL;
    do {
        CHECK(PMIx_Info_list_get_info(list, at, &next)->key[0] == "abcc"[seen++]);
        at = next;
    } while (next);
    CHECK(seen == 4);
    OK(PMIx_Info_list_convert(list, &array));
    PMIx_Info_list_release(list);
    info = array.array;
    CHECK(array.size == 4 && array.type == PMIX_INFO && !strcmp(info[1].value.data.string, "new"));
    CHECK(info[2].value.data.string == own.value.data.string && PMIx_Info_is_persistent(&info[2]));
    CHECK(info[3].value.data.string != own.value.data.string && info[3].flags == 0);
    PMIx_Data_array_destruct(&array);
    PMIx_Info_destruct(&own);

    /* Behind an array lies one that a host destructs. */
    info = PMIx_Info_create(1);
    PMIx_Info_destruct(&info[1]);
    PMIx_Info_free(info, 1);
    CHECK(PMIx_Info_create(0) == NULL);
}

static void texts(void) {
    char **argv = NULL, **copy, *joined;
    OK(PMIx_Argv_append_nosize(&argv, "b"));
    OK(PMIx_Argv_prepend_nosize(&argv, "a"));
    OK(PMIx_Argv_append_unique_nosize(&argv, "b"));
    CHECK(PMIx_Argv_count(argv) == 2 && PMIx_Argv_count(NULL) == 0);
    copy = PMIx_Argv_copy(argv);
    joined = PMIx_Argv_join(copy, ',');
    CHECK(!strcmp(joined, "a,b"));
    free(joined);
    PMIx_Argv_free(copy);
    PMIx_Argv_free(argv);
    argv = PMIx_Argv_split(",a,,b", ',');
    CHECK(PMIx_Argv_count(argv) == 2);
    PMIx_Argv_free(argv);
    argv = PMIx_Argv_split_with_empty(",a,,b", ',');
    CHECK(PMIx_Argv_count(argv) == 4 && !*argv[0]);
    PMIx_Argv_free(argv);

    char **env = NULL;
    OK(PMIx_Setenv("A", "1", true, &env));
    OK(PMIx_Setenv("AB", "2", true, &env));
    IS(PMIX_ERR_EXISTS, PMIx_Setenv("A", "3", false, &env));
    OK(PMIx_Setenv("A", "4", true, &env));
    CHECK(!strcmp(env[0], "A=4") && !strcmp(env[1], "AB=2") && env[2] == NULL);
    PMIx_Argv_free(env);
    extern char **environ;
    OK(PMIx_Setenv("INSTANTON_TEST", "x", true, &environ));
    CHECK(!strcmp(getenv("INSTANTON_TEST"), "x"));

    pmix_nspace_t whole, cluster, part;
    PMIx_Load_nspace(cluster, "c1");
    PMIx_Load_nspace(part, "job");
    PMIx_Multicluster_nspace_construct(whole, cluster, part);
    CHECK(!strcmp(whole, "c1:job"));
    PMIx_Multicluster_nspace_parse(whole, cluster, part);
    CHECK(!strcmp(cluster, "c1") && !strcmp(part, "job"));
    CHECK(PMIx_Check_nspace("a", "a") && !PMIx_Check_nspace("a", "b") && PMIx_Check_nspace("", "b"));
    CHECK(PMIx_Check_key("k", "k") && !PMIx_Check_key("k", "kk") && PMIx_Check_reserved_key("pmix.x"));
    pmix_proc_t proc;
    PMIx_Proc_construct(&proc);
    CHECK(proc.rank == PMIX_RANK_UNDEF && !*proc.nspace);

    CHECK(!strcmp(PMIx_Error_string(PMIX_ERR_NOT_FOUND), "PMIX_ERR_NOT_FOUND"));
    CHECK(PMIx_Error_code("PMIX_ERR_NOT_FOUND") == PMIX_ERR_NOT_FOUND && PMIx_Error_code("PMIX_NONE") == INT32_MIN);
    CHECK(!strcmp(PMIx_Data_type_string(PMIX_UINT32), "PMIX_UINT32"));
    CHECK(!strcmp(PMIx_Scope_string(PMIX_GLOBAL), "SHARE ACROSS ALL NODES"));
    CHECK(!strcmp(PMIx_Get_attribute_name("pmix.job.size"), "PMIX_JOB_SIZE"));
    CHECK(!strcmp(PMIx_Get_attribute_string("PMIX_JOB_SIZE"), "pmix.job.size"));
    char *directives = PMIx_Info_directives_string(1);
    CHECK(!strcmp(directives, "REQUIRED"));
    free(directives);
    char word[32];
    unsigned major, minor, release;
    CHECK(sscanf(PMIx_Get_version(), "%31s %u.%u.%u (PMIx Standard: ", word, &major, &minor, &release) == 4);
}

static void buffers(void) {
    pmix_data_buffer_t *a = PMIx_Data_buffer_create(), *b = PMIx_Data_buffer_create();
    pmix_byte_object_t bo = {strdup("packed"), 6};
    OK(PMIx_Data_load(a, &bo));
    CHECK(bo.bytes == NULL && bo.size == 0);
    a->unpack_ptr += 2;
    OK(PMIx_Data_copy_payload(b, a));
    OK(PMIx_Data_copy_payload(b, a));
    CHECK(b->bytes_used == 8 && !memcmp(b->base_ptr, "ckedcked", 8));
    OK(PMIx_Data_unload(a, &bo));
    CHECK(bo.size == 4 && !memcmp(bo.bytes, "cked", 4) && a->base_ptr == NULL);
    free(bo.bytes);
    PMIx_Data_buffer_release(a);
    PMIx_Data_buffer_release(b);
}

static void nonsense(void) {
    pmix_value_t v = {0}, w;
    void *out = &v;
    size_t size;
    int number = 1;
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Value_load(&v, &number, 9999));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_load(NULL, &number, PMIX_INT));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_xfer(&v, NULL));
    v.type = 9999;
    v.data.ptr = (void *)1;
    memset(&w, 1, sizeof w);
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Value_xfer(&w, &v));
    CHECK(w.type == PMIX_UNDEF);
    PMIx_Value_destruct(&w);
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Data_copy(&out, &v, 9999));
    CHECK(out == NULL);
    out = &v;
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Value_unload(&v, &out, &size));
    char *text = PMIx_Value_string(&v);
    CHECK(strstr(text, "(9999)\tValue: UNPRINTABLE"));
    free(text);
    PMIx_Value_destruct(&v);

    pmix_info_t info;
    char key[600];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    OK(PMIx_Info_load(&info, key, &number, PMIX_INT));
    CHECK(strlen(info.key) == PMIX_MAX_KEYLEN);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_load(&info, NULL, &number, PMIX_INT));
    pmix_info_t strange = info, copied;
    strange.value.type = 9999;
    memset(&copied, 1, sizeof copied);
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Info_xfer(&copied, &strange));
    CHECK(copied.value.type == PMIX_UNDEF && copied.key[0] == 0 && copied.flags == 0);
    PMIx_Info_destruct(&copied);
    memset(info.key, 'k', sizeof info.key);
    text = PMIx_Info_string(&info);
    CHECK(strlen(text) > sizeof info.key);
    free(text);

    pmix_data_array_t array = {PMIX_INFO, SIZE_MAX / 2, &info}, none = {PMIX_INFO, 3, NULL}, odd = {9999, 1, &info};
    v = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &array};
    CHECK(PMIx_Value_string(&v) == NULL);
    v.data.darray = &none;
    CHECK(PMIx_Value_string(&v) == NULL);
    v.data.darray = &odd;
    text = PMIx_Value_string(&v);
    CHECK(strstr(text, "(9999)\tValue: UNPRINTABLE"));
    free(text);
    IS(PMIX_ERR_UNKNOWN_DATA_TYPE, PMIx_Value_xfer(&w, &v));

    /* An array that holds itself. */
    pmix_value_t loop;
    pmix_data_array_t self = {PMIX_DATA_ARRAY, 1, &self};
    loop = (pmix_value_t){.type = PMIX_DATA_ARRAY, .data.darray = &self};
    CHECK(PMIx_Value_string(&loop) == NULL);
    PMIx_Value_construct(&w);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Value_get_size(&loop, &size));

    CHECK(PMIx_Info_create(0) == NULL && PMIx_Info_create(SIZE_MAX / 8) == NULL);
    PMIx_Info_free(NULL, 5);
    PMIx_Value_destruct(NULL);
    PMIx_Info_list_release(NULL);
    IS(PMIX_ERR_BAD_PARAM, PMIx_Info_list_add(NULL, "a", NULL, PMIX_BOOL));
    IS(PMIX_ERR_BAD_PARAM, PMIx_Argv_append_nosize(NULL, "a"));
    CHECK(PMIx_Argv_split(NULL, ',') == NULL);
    CHECK(!PMIx_Check_key(NULL, "a"));
}

int main(void) {
    values();
    arrays();
    infos();
    texts();
    buffers();
    nonsense();
    return 0;
}
